// Every kind of mistake in a job file, and what its message must say.
#include "config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"
#include "tests/unit/suite.h"

// A job with `rest` behind the keys that must be there.
#define JOB(rest)        "{\"dataset\": \"d\", \"model\": {\"kind\": \"gcn\"}" rest "}"
#define MODEL(rest)      "{\"dataset\": \"d\", \"model\": {\"kind\": \"gcn\"" rest "}}"
#define KIND(kind, rest) "{\"dataset\": \"d\", \"model\": {\"kind\": \"" kind "\"" rest "}}"
#define OPTIMIZER(rest)  JOB(", \"optimizer\": {" rest "}")
#define CACHE(rest)      JOB(", \"cache\": {\"policy\": " rest "}")
#define PATHS(paths)     JOB(", \"sampler\": {\"kind\": \"walk\", \"metapaths\": " paths "}")
#define WALK(rest)       JOB(", \"sampler\": {\"kind\": \"walk\", " rest "}")
#define EXTERNAL(model, rest)                                                                      \
    "{\"dataset\": \"d\", \"model\": {\"kind\": \"external\"" model                                \
    "}, \"sampler\": {\"fanout\": [5, 5]}" rest "}"
#define SUBGRAPH(sampler)                                                                          \
    "{\"dataset\": \"d\", \"model\": {\"kind\": \"external\"}, \"sampler\": {"                     \
    "\"subgraph\": \"induced\", " sampler "}}"
#define TIMED(sampler, model, rest)                                                                \
    "{\"dataset\": \"d\", \"model\": {\"kind\": \"" model "\"}, \"sampler\": {\"time\": " sampler  \
    "}" rest "}"
#define SAMPLED           ", \"evaluate\": {\"fanout\": [-1, -1, -1]}"
#define SCHEDULE(entries) JOB(", \"epochs\": 10, \"schedule\": [" entries "]")
#define ENTRY(epoch, batch, samplers, trainers)                                                    \
    "{\"epoch\": " epoch ", \"batch\": " batch ", \"samplers\": " samplers                         \
    ", \"trainers\": " trainers "}"
#define CPU0               "{\"kind\": \"cpu\", \"cores\": 0}"
#define GPU0               "{\"kind\": \"cuda\", \"index\": 0}"
#define GPU1               "{\"kind\": \"cuda\", \"index\": 1}"
#define NCCL(rest)         JOB(", \"updates\": {\"exchange\": \"nccl\"}, " rest)
#define ON(devices, split) JOB(", \"devices\": [" devices "], \"allocation\": {" split "}")
#define CPU(rest)          JOB(", \"devices\": [{\"kind\": \"cpu\", " rest "}]")

static struct sl_config config;

struct mistake {
    const char *text;
    int code;
    const char *parts[4]; // all of them are in the message
};

static const struct mistake mistakes[] = {
    // not JSON: line, column, found, wanted
    {"", SL_EFORMAT, {"the file is empty"}},
    {"{", SL_EFORMAT, {"line 1, column 2", "the text ends", "wanted a key"}},
    {"\xFF\xFE{", SL_EFORMAT, {"line 1, column 1", "found UTF-16 text", "iconv -f UTF-16 -t"}},
    {"{\n  \"a\": 1,\n}", SL_EFORMAT, {"line 3, column 1", "found \"}\"", "take out the comma"}},
    {"{\"a\": [1, 2,]}", SL_EFORMAT, {"column 13", "found \"]\"", "take out the comma"}},
    {"{\"a\": 1 \"b\": 2}", SL_EFORMAT, {"column 9", "a comma is missing"}},
    {"{\"a\": [1 2]}", SL_EFORMAT, {"column 10", "found \"2\"", "\",\" or \"]\""}},
    {"{\"a\" 1}", SL_EFORMAT, {"column 6", "wanted \":\""}},
    {"{a: 1}", SL_EFORMAT, {"column 2", "found a", "a key in double quotes"}},
    {"{'a': 1}", SL_EFORMAT, {"column 2", "double quotes"}},
    {"{\"a\": 1]", SL_EFORMAT, {"column 8", "found \"]\"", "\",\" or \"}\""}},
    {"{\"a\": True}", SL_EFORMAT, {"found True", "small letters"}},
    {"{\"a\": NaN}", SL_EFORMAT, {"found NaN"}},
    {"{\"a\": truely}", SL_EFORMAT, {"found truely"}},
    {"{\"a\": // why\n1}", SL_EFORMAT, {"no comments"}},
    {"{\"a\": 01}", SL_EFORMAT, {"column 7", "begins with 0"}},
    {"{\"a\": 1.}", SL_EFORMAT, {"ends in its point"}},
    {"{\"a\": 1e}", SL_EFORMAT, {"exponent has no digits"}},
    {"{\"a\": -}", SL_EFORMAT, {"without a digit"}},
    {"{\"a\": +1}", SL_EFORMAT, {"found \"+\""}},
    {"{\"a\": 1111111111222222222233333333334444444444555555555566666666667}",
     SL_EFORMAT,
     {"61 characters"}},
    {"{\"a\": \"b}", SL_EFORMAT, {"column 7", "never closed"}},
    {"{\"a\": \"b\n\"}", SL_EFORMAT, {"not closed on its line"}},
    {"{\"a\": \"b\tc\"}", SL_EFORMAT, {"control character 0x09"}},
    {"{\"a\": \"\\x\"}", SL_EFORMAT, {"column 8", "unknown escape"}},
    {"{\"a\": \"\\u12g4\"}", SL_EFORMAT, {"four hexadecimal digits"}},
    {"{\"a\": \"\\u0000\"}", SL_EFORMAT, {"\\u0000"}},
    {"{\"a\": \"\\ud800x\"}", SL_EFORMAT, {"surrogate"}},
    {"{\"a\": \"\\udc00\"}", SL_EFORMAT, {"surrogate"}},
    {"{\"a\": \"\xff\"}", SL_EFORMAT, {"byte 0xff", "UTF-8"}},
    {"{\"a\": \"\xc0\x80\"}", SL_EFORMAT, {"byte 0xc0", "UTF-8"}},
    {"{\"a\": \"\xed\xa0\x80\"}", SL_EFORMAT, {"byte 0xed", "UTF-8"}},
    {"{\"\xc3\xa4\": 1,}", SL_EFORMAT, {"column 9"}}, // a column is a character
    {JOB("") " x", SL_EFORMAT, {"found x", "nothing after the end"}},
    {JOB("") "\n}", SL_EFORMAT, {"line 2, column 1", "nothing after the end"}},
    {"[1, 2]", SL_EINVAL, {"found list [1,2]", "wanted a JSON object"}},
    {"null", SL_EINVAL, {"found null", "wanted a JSON object"}},

    // keys
    {"{}", SL_EINVAL, {"dataset: missing", "add it"}},
    {"{\"dataset\": \"d\"}",
     SL_EINVAL,
     {"model.kind: missing", "\"graphsage\", \"gcn\", \"gat\", \"gatv2\", \"gin\", \"pinsage\", "
                             "\"rsage\", \"rgat\", \"rgatv2\", \"rgcn\", \"hgt\" or \"external\""}},
    {"{\"dataset\": \"d\", \"model\": {}}", SL_EINVAL, {"model.kind: missing"}},
    {JOB(", \"epocs\": 1"), SL_EINVAL, {"t.json: epocs: unknown key", "did you mean epochs?"}},
    {JOB(", \"Epochs\": 1"), SL_EINVAL, {"Epochs: unknown key", "did you mean epochs?"}},
    {JOB(", \"epoch\": 1"), SL_EINVAL, {"epoch: unknown key", "did you mean epochs?"}},
    {JOB(", \"sampler\": {\"batch\": 1}"), SL_EINVAL, {"did you mean sampler.batch_size?"}},
    {JOB(", \"trainers\": 1"), SL_EINVAL, {"did you mean allocation.trainers?"}},
    {JOB(", \"schedule[].epoch\": 1"), SL_EINVAL, {"unknown key"}},
    {MODEL(", \"hidden_channels\": 1"), SL_EINVAL, {"did you mean model.hidden?"}},
    {MODEL(", \"num_layers\": 1"), SL_EINVAL, {"did you mean model.layers?"}},
    {JOB(", \"fanout\": [1]"), SL_EINVAL, {"did you mean sampler.fanout?"}},
    {JOB(", \"model.layers\": 1"), SL_EINVAL, {"\"layers\" inside \"model\""}},
    {JOB(", \"devices[].kind\": 1"), SL_EINVAL, {"unknown key"}},
    {JOB(", \"\": 1"), SL_EINVAL, {"unknown key"}},
    {MODEL(", \"qqqqqq\": 1"),
     SL_EINVAL,
     {"the keys of model are kind, layers, hidden, dropout, input_dropout"}},
    {JOB(", \"qqqqqq\": 1"), SL_EINVAL, {"the keys here are name, dataset", "output"}},
    {JOB(", \"epochs\": 1, \"epochs\": 2"), SL_EINVAL, {"epochs: found twice", "keep one"}},
    {MODEL(", \"kind\": \"gcn\""), SL_EINVAL, {"model.kind: found twice"}},
    {JOB(", \"model\": {\"kind\": \"gcn\"}"), SL_EINVAL, {"model: found twice"}},
    {CPU("\"cores\": 0, \"cores\": 0"), SL_EINVAL, {"devices[0].cores: found twice"}},

    // types: what was found, what is wanted
    {"{\"dataset\": 3, \"model\": {\"kind\": \"gcn\"}}",
     SL_EINVAL,
     {"dataset: found number 3", "wanted text of 1 to 4095 bytes"}},
    {"{\"dataset\": \"\", \"model\": {\"kind\": \"gcn\"}}", SL_EINVAL, {"found string \"\""}},
    {"{\"dataset\": \"d\", \"model\": \"gcn\"}",
     SL_EINVAL,
     {"model: found string \"gcn\"", "wanted an object"}},
    {JOB(", \"sampler\": []"), SL_EINVAL, {"sampler: found list []", "wanted an object"}},
    {JOB(", \"epochs\": \"ten\""),
     SL_EINVAL,
     {"epochs: found string \"ten\"", "wanted a whole number from 1 to 1000000",
      "the default, \"auto\""}},
    {JOB(", \"epochs\": \"10\""), SL_EINVAL, {"write 10 without quotes"}},
    {JOB(", \"epochs\": true"), SL_EINVAL, {"found boolean true"}},
    {JOB(", \"epochs\": null"), SL_EINVAL, {"found null"}},
    {JOB(", \"epochs\": [1]"), SL_EINVAL, {"found list [1]"}},
    {JOB(", \"epochs\": {}"), SL_EINVAL, {"found object {}"}},
    {JOB(", \"digest\": 1"), SL_EINVAL, {"digest: found number 1", "true or false"}},
    {JOB(", \"name\": 7"), SL_EINVAL, {"name: found number 7", "text of 1 to 127 bytes"}},
    {JOB(", \"$schema\": 7"), SL_EINVAL, {"$schema: found number 7"}},
    {JOB(", \"precision\": 16"),
     SL_EINVAL,
     {"found number 16", "\"fp32\", \"bf16\", \"tf32\" or \"auto\""}},

    // ranges
    {JOB(", \"epochs\": 0"), SL_EINVAL, {"epochs: found number 0", "from 1 to 1000000"}},
    {JOB(", \"epochs\": 1000001"), SL_EINVAL, {"found number 1000001"}},
    {JOB(", \"epochs\": 2.5"), SL_EINVAL, {"found number 2.5", "a whole number"}},
    {JOB(", \"epochs\": 1e999"), SL_EINVAL, {"beyond 1.8e308"}},
    {JOB(", \"epochs\": -1e999"), SL_EINVAL, {"beyond -1.8e308"}},
    {JOB(", \"seed\": -1"), SL_EINVAL, {"seed: found number -1", "from 0 to 9007199254740991"}},
    {JOB(", \"seed\": 9007199254740992"), SL_EINVAL, {"found number 9007199254740992"}},
    {JOB(", \"seed\": 18446744073709551615"), SL_EINVAL, {"seed: found number 1.844674407370955"}},
    {MODEL(", \"layers\": 0"), SL_EINVAL, {"model.layers: found number 0", "from 1 to 8"}},
    {MODEL(", \"layers\": 9"), SL_EINVAL, {"model.layers: found number 9", "from 1 to 8"}},
    {MODEL(", \"hidden\": 65537"), SL_EINVAL, {"from 1 to 65536"}},
    {MODEL(", \"dropout\": 1"), SL_EINVAL, {"model.dropout: found number 1", "below 1"}},
    {MODEL(", \"dropout\": -0.1"), SL_EINVAL, {"found number -0.1", "of at least 0"}},
    {JOB(", \"optimizer\": {\"lr\": 0}"), SL_EINVAL, {"optimizer.lr", "a number above 0"}},
    {JOB(", \"optimizer\": {\"weight_decay\": -1}"), SL_EINVAL, {"optimizer.weight_decay"}},
    {JOB(", \"optimizer\": {\"kind\": \"sgd\", \"momentum\": 1}"), SL_EINVAL, {"below 1"}},
    {JOB(", \"sampler\": {\"batch_size\": 0}"), SL_EINVAL, {"from 1 to 2147483648"}},
    {JOB(", \"updates\": {\"batches_per_update\": 1025}"), SL_EINVAL, {"from 1 to 1024"}},
    {JOB(", \"evaluate\": {\"every\": -1}"), SL_EINVAL, {"evaluate.every", "from 0 to"}},
    {JOB(", \"evaluate\": {\"every\": 0.3}"), SL_EINVAL, {"evaluate.every: found 0.3", "1/n"}},
    {JOB(", \"evaluate\": {\"every\": 1.5}"), SL_EINVAL, {"evaluate.every: found 1.5", "1/n"}},
    {JOB(", \"evaluate\": {\"every\": 1e-5}"), SL_EINVAL, {"found 1e-05", "0.5 to 0.0001"}},
    {JOB(", \"epochs\": 100000, \"evaluate\": {\"every\": 0.05}"),
     SL_EINVAL,
     {"epochs: found 100000 with evaluate.every 0.05", "at most 50000"}},
    {JOB(", \"order\": {\"epochs_per_pass\": 2}, \"evaluate\": {\"every\": 0.5}"),
     SL_EINVAL,
     {"evaluate.every: found 0.5 beside order.epochs_per_pass"}},
    {JOB(", \"order\": {\"kind\": \"listed\"}, \"evaluate\": {\"every\": 0.5}"),
     SL_EINVAL,
     {"evaluate.every: found 0.5 beside order.kind"}},
    {JOB(", \"evaluate\": {\"test\": \"no\"}"),
     SL_EINVAL,
     {"evaluate.test", "\"final\"", "\"each\"", "\"never\""}},
    {JOB(", \"updates\": {\"mode\": \"async\", \"staleness\": 1025}"),
     SL_EINVAL,
     {"updates.staleness: found number 1025", "from 0 to 1024"}},
    {WALK("\"paths\": 0"), SL_EINVAL, {"sampler.paths: found number 0", "from 1 to 1024"}},
    {WALK("\"paths\": 1025"), SL_EINVAL, {"sampler.paths: found number 1025"}},
    {WALK("\"length\": 0"), SL_EINVAL, {"sampler.length: found number 0", "from 1 to 64"}},
    {WALK("\"length\": 65"), SL_EINVAL, {"sampler.length: found number 65"}},
    {WALK("\"restart\": 1"), SL_EINVAL, {"sampler.restart: found number 1", "below 1"}},
    {WALK("\"restart\": -0.5"), SL_EINVAL, {"sampler.restart", "of at least 0"}},
    {CACHE("\"presc\", \"presample_epochs\": 0"),
     SL_EINVAL,
     {"cache.presample_epochs: found number 0, wanted a whole number from 1 to"}},
    {CACHE("\"presc\", \"presample_epochs\": 1.5"), SL_EINVAL, {"cache.presample_epochs"}},
    {CACHE("\"presc\", \"ratio\": 0"),
     SL_EINVAL,
     {"cache.ratio: found number 0, wanted a number above 0 and at most 1, or \"auto\""}},
    {CACHE("\"random\", \"ratio\": 1.01"), SL_EINVAL, {"cache.ratio: found number 1.01"}},
    {"{\"dataset\": \"d\", \"model\": {\"kind\": \"external\"},"
     " \"cache\": {\"policy\": \"optimal\"}}",
     SL_EINVAL,
     {"cache.policy: found \"optimal\" in a job without an end", "give epochs"}},
    {CACHE("\"optimal\", \"ratio\": -0.1"), SL_EINVAL, {"cache.ratio: found number -0.1"}},
    {CACHE("\"optimal\", \"report_optimal\": 1"), SL_EINVAL, {"cache.report_optimal", "true or"}},
    {JOB(", \"throttle\": {\"sample\": 10.5}"),
     SL_EINVAL,
     {"throttle.sample: found number 10.5", "a number from 0 to 10"}},
    {JOB(", \"throttle\": {\"train\": -1}"), SL_EINVAL, {"throttle.train: found number -1"}},
    {JOB(", \"throttle\": {\"standby\": \"1s\"}"), SL_EINVAL, {"throttle.standby"}},
    {JOB(", \"allocation\": {\"samplers\": 0}"),
     SL_EINVAL,
     {"allocation.samplers: found number 0", "from 1 to 64, or \"auto\""}},
    {JOB(", \"allocation\": {\"trainers\": 0}"), SL_EINVAL, {"allocation.trainers"}},

    // words
    {"{\"dataset\": \"d\", \"model\": {\"kind\": \"grapsage\"}}",
     SL_EINVAL,
     {"model.kind: found string \"grapsage\"",
      "wanted \"graphsage\", \"gcn\", \"gat\", \"gatv2\", \"gin\", \"pinsage\", \"rsage\", "
      "\"rgat\", \"rgatv2\", \"rgcn\", \"hgt\" or \"external\"",
      "did you mean \"graphsage\"?"}},
    {"{\"dataset\": \"d\", \"model\": {\"kind\": \"transformer\"}}",
     SL_EINVAL,
     {"found string \"transformer\"",
      "wanted \"graphsage\", \"gcn\", \"gat\", \"gatv2\", \"gin\", \"pinsage\", \"rsage\", "
      "\"rgat\", \"rgatv2\", \"rgcn\", \"hgt\" or \"external\""}},
    {JOB(", \"optimizer\": {\"kind\": \"Adam\"}"), SL_EINVAL, {"did you mean \"adam\"?"}},
    {JOB(", \"updates\": {\"mode\": \"asynch\"}"),
     SL_EINVAL,
     {"updates.mode: found string \"asynch\"", "wanted \"ordered\" or \"async\"",
      "did you mean \"async\"?"}},
    {JOB(", \"cache\": {\"policy\": \"lru\"}"),
     SL_EINVAL,
     {"cache.policy",
      "wanted \"none\", \"random\", \"degree\", \"expected\", \"presc\", \"optimal\" or \"auto\""}},
    {JOB(", \"sampler\": {\"kind\": \"weigted\"}"),
     SL_EINVAL,
     {"sampler.kind", "wanted \"khop\", \"weighted\", \"walk\" or \"labor\"",
      "did you mean \"weighted\"?"}},
    {JOB(", \"allocation\": {\"switching\": \"yes\"}"),
     SL_EINVAL,
     {"allocation.switching: found string \"yes\"", "wanted true or false"}},
    {CACHE("\"degree\", \"ratio\": \"all\""), SL_EINVAL, {"cache.ratio", "or \"auto\""}},
    {JOB(", \"allocation\": {\"samplers\": \"atuo\"}"), SL_EINVAL, {"did you mean \"auto\"?"}},

    // lists
    {MODEL(", \"layers\": 2"), SL_EINVAL, {"sampler.fanout: missing", "2 entries", "model.layers"}},
    {JOB(", \"sampler\": {\"fanout\": [15, 10]}"),
     SL_EINVAL,
     {"sampler.fanout: found 2 entries, wanted 3, one for each of model.layers",
      "set model.layers to 2"}},
    {JOB(", \"sampler\": {\"fanout\": []}"), SL_EINVAL, {"found 0 entries, wanted 3"}},
    {JOB(", \"sampler\": {\"fanout\": [1,2,3,4,5,6,7,8,9,10]}"),
     SL_EINVAL,
     {"found 10 entries, wanted 3"}},
    {JOB(", \"sampler\": {\"fanout\": 5}"), SL_EINVAL, {"found number 5", "a list"}},
    {JOB(", \"sampler\": {\"fanout\": \"full\"}"), SL_EINVAL, {"found string \"full\"", "a list"}},
    {JOB(", \"sampler\": {\"fanout\": [5, 0, 5]}"),
     SL_EINVAL,
     {"entry 1: found number 0", "-1 (all neighbours)", "from 1 to 65535"}},
    {JOB(", \"sampler\": {\"fanout\": [5, 5, 65536]}"), SL_EINVAL, {"entry 2: found number 65536"}},
    {JOB(", \"sampler\": {\"fanout\": [-2, 5, 5]}"), SL_EINVAL, {"entry 0: found number -2"}},
    {JOB(", \"sampler\": {\"fanout\": [1.5, 5, 5]}"), SL_EINVAL, {"entry 0: found number 1.5"}},
    {JOB(", \"sampler\": {\"fanout\": [\"5\", 5, 5]}"), SL_EINVAL, {"entry 0: found string \"5\""}},
    {JOB(", \"sampler\": {\"fanout\": {}}"), SL_EINVAL, {"found 0 entries, wanted 3"}},
    {PATHS("[[\"a\"]]"), SL_EINVAL, {"sampler.metapaths: found list", "wanted an object"}},
    {PATHS("{}"), SL_EINVAL, {"found object {}", "a list of relations for each metapath"}},
    {PATHS("{\"a\": \"b\"}"), SL_EINVAL, {"metapaths: \"a\": found string", "1 to 8 relations"}},
    {PATHS("{\"a\": []}"), SL_EINVAL, {"sampler.metapaths: \"a\": found list []"}},
    {PATHS("{\"a\": [1,2,3,4,5,6,7,8,9]}"), SL_EINVAL, {"found list", "1 to 8 relations"}},
    {PATHS("{\"a\": [\"b\", 7]}"), SL_EINVAL, {"\"a\": entry 1: found number 7"}},
    {PATHS("{\"a b\": [\"c\"]}"), SL_EINVAL, {"found \"a b\" behind 0 others", "letters, digits"}},
    {JOB(", \"sampler\": {\"metapaths\": {\"a\": [\"b\"]}}"),
     SL_EINVAL,
     {"sampler.metapaths: found object", "with sampler.kind \"khop\"", "only with \"walk\""}},
    {JOB(", \"sampler\": {\"fanout\": {\"a\": 5}}"),
     SL_EINVAL,
     {"sampler.fanout: \"a\": found number 5, wanted a list"}},
    {JOB(", \"sampler\": {\"fanout\": {\"a\": [5, 0, -2]}}"),
     SL_EINVAL,
     {"sampler.fanout: \"a\": entry 2: found number -2", "from 0 to 65535"}},
    {JOB(", \"sampler\": {\"fanout\": {\"a\": [5, 5, 5], \"*\": [5]}}"),
     SL_EINVAL,
     {"\"*\": found 1 entry, wanted 3"}},
    {JOB(", \"sampler\": {\"fanout\": {\"a\": [5, 5], \"*\": [5, 5]}}"),
     SL_EINVAL,
     {"found 2 entries, wanted 3", "set model.layers to 2"}},
    {JOB(", \"sampler\": {\"fanout\": {\"a\": [5, 5, 5], \"a\": [5, 5, 4]}}"),
     SL_EINVAL,
     {"found \"a\" twice"}},
    {JOB(", \"evaluate\": {\"fanout\": [5]}"),
     SL_EINVAL,
     {"evaluate.fanout: found 1 entry, wanted 3", "model.layers"}},
    {JOB(", \"evaluate\": {\"fanout\": \"all\"}"), SL_EINVAL, {"evaluate.fanout", "or \"full\""}},

    // keys that do not go together
    {JOB(", \"optimizer\": {\"momentum\": 0.9}"),
     SL_EINVAL,
     {"optimizer.momentum: found number 0.9 with optimizer.kind \"adam\"", "only with \"sgd\""}},
    {JOB(", \"sampler\": {\"paths\": 4}"),
     SL_EINVAL,
     {"sampler.paths: found number 4 with sampler.kind \"khop\"", "only with \"walk\""}},
    {JOB(", \"sampler\": {\"kind\": \"weighted\", \"length\": 4}"),
     SL_EINVAL,
     {"sampler.length: found number 4 with sampler.kind \"weighted\"", "only with \"walk\""}},
    {JOB(", \"sampler\": {\"restart\": 0}"), SL_EINVAL, {"sampler.restart", "only with \"walk\""}},
    {JOB(", \"updates\": {\"staleness\": 5}"),
     SL_EINVAL,
     {"updates.staleness: found number 5 with updates.mode \"ordered\"", "only with \"async\""}},
    {JOB(", \"updates\": {\"mode\": \"async\", \"batches_per_update\": 2}"),
     SL_EINVAL,
     {"updates.batches_per_update: found number 2 with updates.mode \"async\"",
      "only with \"ordered\""}},
    {CACHE("\"degree\", \"presample_epochs\": 2"),
     SL_EINVAL,
     {"cache.presample_epochs: found number 2 with cache.policy \"degree\"",
      "only with \"presc\""}},
    {JOB(", \"cache\": {\"ratio\": 0.1}"),
     SL_EINVAL,
     {"cache.ratio: found number 0.1 with cache.policy \"auto\"",
      "only with \"random\", \"degree\", \"expected\", \"presc\" or \"optimal\"", "take it out"}},
    {CACHE("\"none\", \"report_optimal\": true"),
     SL_EINVAL,
     {"cache.report_optimal: found boolean true with cache.policy \"none\"", "only with"}},
    {JOB(", \"sampler\": {\"kind\": \"weighted\"}, \"cache\": {\"policy\": \"expected\"}"),
     SL_EINVAL,
     {"cache.policy: found \"expected\" with sampler.kind \"weighted\"", "only with \"khop\""}},
    {JOB(", \"sampler\": {\"kind\": \"walk\"}, \"cache\": {\"policy\": \"expected\"}"),
     SL_EINVAL,
     {"cache.policy: found \"expected\" with sampler.kind \"walk\"", "only with \"khop\""}},
    {CACHE("\"expected\", \"presample_epochs\": 2"),
     SL_EINVAL,
     {"cache.presample_epochs: found number 2 with cache.policy \"expected\"",
      "only with \"presc\""}},
    {JOB(", \"order\": {\"kind\": \"near\"}"),
     SL_EINVAL,
     {"order.kind: found string \"near\"", "\"shuffled\", \"proximity\", \"listed\" or \"parts\""}},
    {JOB(", \"order\": {\"sequences\": 4}"),
     SL_EINVAL,
     {"order.sequences: found number 4 with order.kind \"shuffled\"", "only with \"proximity\""}},
    {JOB(", \"order\": {\"excess_error\": 0.5}"),
     SL_EINVAL,
     {"order.excess_error: found number 0.5 with order.kind \"shuffled\"",
      "only with \"proximity\""}},
    {JOB(", \"order\": {\"kind\": \"proximity\", \"sequences\": 0}"),
     SL_EINVAL,
     {"order.sequences: found number 0", "wanted a whole number from 1", "\"auto\""}},
    {JOB(", \"epochs\": 10, \"cache\": {\"policy\": \"presc\", \"presample_epochs\": 10}"),
     SL_EINVAL,
     {"cache.presample_epochs: found 10 with 10 epochs, wanted at most 9", "raise epochs"}},
    {JOB(", \"epochs\": 1, \"cache\": {\"policy\": \"presc\"}"),
     SL_EINVAL,
     {"cache.presample_epochs: found 1 with 1 epoch, wanted at least 2 epochs"}},

    // schedule
    {JOB(", \"schedule\": {}"),
     SL_EINVAL,
     {"schedule: found object {}", "a list of 0 to 64 entries such as [{\"epoch\": 3"}},
    {JOB(", \"schedule\": \"auto\""), SL_EINVAL, {"schedule: found string \"auto\""}},
    {JOB(", \"schedule\": [3]"),
     SL_EINVAL,
     {"schedule[0]: found number 3, wanted an object such as {\"epoch\": 3"}},
    {JOB(", \"schedule\": [{}]"), SL_EINVAL, {"schedule[0].epoch: missing", "add it"}},
    {JOB(", \"schedule\": [{\"epoch\": 1, \"samplers\": 1}]"),
     SL_EINVAL,
     {"schedule[0].trainers: missing, wanted a whole number from 1 to 64"}},
    {SCHEDULE("{\"epochs\": 1, \"samplers\": 1, \"trainers\": 1}"),
     SL_EINVAL,
     {"schedule[0].epochs: unknown key: did you mean schedule[].epoch?"}},
    {SCHEDULE("{\"epoch\": 1, \"epoch\": 1, \"samplers\": 1, \"trainers\": 1}"),
     SL_EINVAL,
     {"schedule[0].epoch: found twice"}},
    {SCHEDULE(ENTRY("1", "0", "1", "1") ", " ENTRY("2", "0", "0", "1")),
     SL_EINVAL,
     {"schedule[1].samplers: found number 0", "from 1 to 64"}},
    {SCHEDULE(ENTRY("1", "0", "1", "0")),
     SL_EINVAL,
     {"schedule[0].trainers: found number 0", "from 1 to 64"}},
    {SCHEDULE(ENTRY("1", "0", "1", "65")), SL_EINVAL, {"schedule[0].trainers: found number 65"}},
    {SCHEDULE(ENTRY("-1", "0", "1", "1")), SL_EINVAL, {"schedule[0].epoch: found number -1"}},
    {SCHEDULE(ENTRY("1", "-1", "1", "1")), SL_EINVAL, {"schedule[0].batch: found number -1"}},
    {SCHEDULE(ENTRY("1", "4294967296", "1", "1")),
     SL_EINVAL,
     {"schedule[0].batch: found number 4294967296", "from 0 to 4294967295"}},
    {SCHEDULE(ENTRY("10", "0", "1", "1")),
     SL_EINVAL,
     {"schedule[0].epoch: found 10 with 10 epochs", "wanted at most 9", "raise epochs"}},
    {SCHEDULE(ENTRY("3", "0", "1", "1") ", " ENTRY("2", "5", "1", "1")),
     SL_EINVAL,
     {"schedule[1]: found epoch 2, batch 5 after epoch 3, batch 0", "ascending", "sort them"}},
    {SCHEDULE(ENTRY("3", "5", "1", "1") ", " ENTRY("3", "4", "1", "1")),
     SL_EINVAL,
     {"schedule[1]: found epoch 3, batch 4 after epoch 3, batch 5"}},
    {SCHEDULE(ENTRY("3", "5", "1", "1") ", " ENTRY("3", "5", "2", "1")),
     SL_EINVAL,
     {"schedule[1]: found epoch 3, batch 5 after epoch 3, batch 5", "one for each moment"}},

    // more roles than devices
    {ON(CPU0 ", " CPU0 ", " CPU0 ", " CPU0, "\"samplers\": 3, \"trainers\": 2"),
     SL_EINVAL,
     {"t.json: allocation: found 3 samplers and 2 trainers, wanted at most 4 roles on 4 devices: "
      "list more devices (several may name the same core or GPU) or ask for fewer"}},
    {ON(CPU0 ", " CPU0, "\"samplers\": 2"),
     SL_EINVAL,
     {"allocation: found 2 samplers and at least 1 trainer, wanted at most 2 roles on 2 devices"}},
    {ON(CPU0 ", " CPU0, "\"trainers\": 2"),
     SL_EINVAL,
     {"allocation: found 1 sampler and 2 trainers, wanted at most 2 roles on 2 devices"}},
    {ON(CPU0, "\"trainers\": 1"),
     SL_EINVAL,
     {"allocation: found 1 sampler and 1 trainer, wanted at most 1 role on 1 device"}},
    {ON(CPU0, "\"samplers\": 2"), SL_EINVAL, {"at most 1 role on 1 device"}},
    {ON(CPU0, "\"switching\": false"),
     SL_EINVAL,
     {"allocation.switching: found false with 1 device, wanted true", "list a second device"}},
    {ON(CPU0, "\"samplers\": 1, \"switching\": false"),
     SL_EINVAL,
     {"allocation.switching: found false with 1 device"}},
    {JOB(", \"allocation\": {\"samplers\": 33, \"trainers\": 32}"),
     SL_EINVAL,
     {"allocation: found 33 samplers and 32 trainers, wanted at most 64 workers", "ask for fewer"}},
    {JOB(", \"allocation\": {\"samplers\": 64}"),
     SL_EINVAL,
     {"allocation: found 64 samplers and at least 1 trainer, wanted at most 64 workers"}},
    {SCHEDULE(ENTRY("1", "0", "1", "1") ", " ENTRY("2", "0", "64", "1")),
     SL_EINVAL,
     {"schedule[1]: found 64 samplers and 1 trainer, wanted at most 64 workers"}},
    {JOB(", \"devices\": [" CPU0 ", " CPU0 ", " CPU0
         "], \"schedule\": [" ENTRY("1", "0", "2", "1") ", " ENTRY("2", "0", "2", "2") "]"),
     SL_EINVAL,
     {"schedule[1]: found 2 samplers and 2 trainers, wanted at most 3 roles on 3 devices: list"}},
    {JOB(", \"devices\": [" CPU0 "], \"schedule\": [" ENTRY("1", "0", "1", "1") "]"),
     SL_EINVAL,
     {"schedule[0]: found 1 sampler and 1 trainer, wanted at most 1 role on 1 device"}},

    // updates.exchange
    {JOB(", \"updates\": {\"exchange\": \"mpi\"}"),
     SL_EINVAL,
     {"updates.exchange: found string \"mpi\"", "wanted \"board\" or \"nccl\""}},
    {JOB(", \"updates\": {\"mode\": \"async\", \"exchange\": \"nccl\"}"),
     SL_EINVAL,
     {"updates.exchange: found string \"nccl\" with updates.mode \"async\"",
      "only with \"ordered\"", "take it out"}},
    {NCCL("\"devices\": [" GPU0 ", " GPU1 "], \"allocation\": {\"switching\": true}"),
     SL_EINVAL,
     {"allocation.switching: found true with updates.exchange \"nccl\", wanted false",
      "take it out", "\"board\""}},
    {NCCL("\"devices\": [" GPU0 "]"),
     SL_EINVAL,
     {"updates.exchange: found \"nccl\" with 1 device, wanted at least 2", "list a second one",
      "the same GPU"}},
    {NCCL("\"devices\": \"cpu\""),
     SL_EINVAL,
     {"updates.exchange: found \"nccl\", wanted a GPU for each trainer", "is a CPU device"}},
    {NCCL("\"devices\": [" GPU0 ", " CPU0 "], \"allocation\": {\"trainers\": 1}"),
     SL_EINVAL,
     {"wanted a GPU for each trainer, but device 1 is a CPU device", "list GPUs last"}},
    {NCCL("\"devices\": [" CPU0 ", " CPU0 ", " GPU0 "], \"allocation\": {\"trainers\": 2}"),
     SL_EINVAL,
     {"found \"nccl\" with as many as 2 trainers", "device 1 is a CPU device",
      "set allocation.trainers to at most 1"}},
    {NCCL("\"devices\": [" GPU0 ", " GPU1 ", " GPU1 "]"),
     SL_EINVAL,
     {"as many as 2 trainers", "device 1 and device 2 are both on GPU 1",
      "set allocation.trainers to at most 1"}},
    {NCCL("\"devices\": [" GPU0 ", " GPU1 ", " GPU1
          "], \"schedule\": [" ENTRY("1", "0", "1", "2") "], \"allocation\": {\"samplers\": 2}"),
     SL_EINVAL,
     {"as many as 2 trainers", "device 1 and device 2 are both on GPU 1"}},

    // devices
    {JOB(", \"devices\": []"), SL_EINVAL, {"devices: found 0 devices", "1 to 64", "\"auto\""}},
    {JOB(", \"devices\": \"all\""),
     SL_EINVAL,
     {"devices: found string \"all\"", "\"auto\" or \"cpu\""}},
    {JOB(", \"devices\": 2"), SL_EINVAL, {"devices: found number 2"}},
    {JOB(", \"devices\": [0]"), SL_EINVAL, {"devices[0]: found number 0", "an object"}},
    {JOB(", \"devices\": [{\"cores\": 0}]"), SL_EINVAL, {"devices[0].kind: missing"}},
    {CPU("\"memory\": 4096"), SL_EINVAL, {"devices[0].cores: missing", "\"0-3\""}},
    {CPU("\"core\": 0"),
     SL_EINVAL,
     {"devices[0].core: unknown key", "did you mean devices[].cores?"}},
    {JOB(", \"devices\": \"cpus\""), SL_EINVAL, {"did you mean \"cpu\"?"}},
    {JOB(", \"devices\": [{\"kind\": \"gpu\", \"index\": 0}]"),
     SL_EINVAL,
     {"devices[0].kind: found string \"gpu\"", "wanted \"cpu\" or \"cuda\""}},
    {JOB(", \"devices\": [{\"kind\": \"cuda\", \"cores\": 0}]"),
     SL_EINVAL,
     {"devices[0].index: missing, wanted a whole number from 0 to 63", "sluice doctor"}},
    {JOB(", \"devices\": [{\"kind\": \"cuda\", \"index\": 64}]"),
     SL_EINVAL,
     {"devices[0].index: found number 64", "from 0 to 63"}},
    {JOB(", \"devices\": [" CPU0 ", {\"kind\": \"cpu\", \"index\": 0, \"cores\": 0}]"),
     SL_EINVAL,
     {"devices[1].index: found number 0 with devices[1].kind \"cpu\"", "only with \"cuda\"",
      "set devices[1].kind to \"cuda\""}},
    {JOB(", \"devices\": [" GPU0 ", " CPU0 "]"),
     SL_EINVAL,
     {"devices[1].kind: found \"cpu\" after \"cuda\"", "wanted CPU devices first", "sort"}},
    {JOB(", \"devices\": [" GPU0 "], \"allocation\": {\"switching\": false}"),
     SL_EINVAL,
     {"allocation.switching: found false with 1 device"}},
    {JOB(", \"devices\": [" GPU0 ", " GPU0 "], \"allocation\": {\"cores\": \"pool\"}"),
     SL_EINVAL,
     {"devices[0].kind: found a GPU with allocation.cores \"pool\"", "\"fixed\""}},
    {JOB(", \"devices\": [{\"kind\": \"cpu\", \"cores\": \"0\", \"memory\": \"1GiB\"}],"
         " \"allocation\": {\"cores\": \"pool\"}"),
     SL_EINVAL,
     {"devices[0].memory: found a budget with allocation.cores \"pool\"", "take it out"}},
    {EXTERNAL(", \"hidden\": 64", ""),
     SL_EINVAL,
     {"model.hidden: found number 64 with model.kind \"external\"", "\"gcn\"", "take it out"}},
    {EXTERNAL("", ", \"optimizer\": {\"kind\": \"sgd\", \"momentum\": 0.5}"),
     SL_EINVAL,
     {"optimizer.kind: found string \"sgd\" with model.kind \"external\""}},
    {EXTERNAL("", ", \"optimizer\": {\"beta1\": 0.5}"), // whose only_key has the default
     SL_EINVAL,
     {"optimizer.beta1: found number 0.5 with model.kind \"external\"", "wanted it only with"}},
    {EXTERNAL("", ", \"checkpoint\": {\"every_seconds\": 10}"),
     SL_EINVAL,
     {"checkpoint.every_seconds: found number 10 with model.kind \"external\""}},
    {EXTERNAL("", ", \"allocation\": {\"switching\": false}"),
     SL_EINVAL,
     {"allocation.switching: found boolean false with model.kind \"external\""}},
    {EXTERNAL(", \"layers\": 3", ""), SL_EINVAL, {"sampler.fanout: found 2 entries, wanted 3"}},
    {JOB(", \"input\": {\"split\": \"val\"}"),
     SL_EINVAL,
     {"input.split: found string \"val\" with model.kind", "wanted it only with \"external\""}},
    {JOB(", \"sampler\": {\"subgraph\": \"induced\", \"fanout\": [5, 5, 5]}"),
     SL_EINVAL,
     {"sampler.subgraph: found string \"induced\" with model.kind", "\"external\""}},
    {SUBGRAPH("\"kind\": \"walk\", \"expand\": \"new\", \"fanout\": [5, 5]"),
     SL_EINVAL,
     {"sampler.subgraph: found \"induced\" with sampler.kind \"walk\"", "take it out"}},
    {SUBGRAPH("\"fanout\": [5, 5]"),
     SL_EINVAL,
     {"sampler.subgraph: found \"induced\" with sampler.expand \"all\"", "to \"new\""}},
    {SUBGRAPH("\"expand\": \"new\", \"fanout\": [1, 1, 1, 1, 1, 1, 1, 1]"),
     SL_EINVAL,
     {"sampler.subgraph: found \"induced\" with 8 hops, wanted at most 7", "take an entry out"}},
    {TIMED("\"uniform\"", "graphsage", ""),
     SL_EINVAL,
     {"evaluate.fanout: found \"full\" with sampler.time \"uniform\", wanted a list"}},
    {TIMED("\"latest\"", "gcn", SAMPLED),
     SL_EINVAL,
     {"model.degrees: found \"graph\" with sampler.time \"latest\", wanted \"block\""}},
    {TIMED("\"uniform\", \"kind\": \"walk\"", "pinsage", SAMPLED),
     SL_EINVAL,
     {"sampler.kind: found \"walk\" with sampler.time", "any time"}},
    {TIMED("\"latest\", \"kind\": \"weighted\"", "graphsage", SAMPLED),
     SL_EINVAL,
     {"sampler.kind: found \"weighted\" with sampler.time \"latest\"", "to \"uniform\""}},
    {TIMED("\"latest\", \"replace\": true", "graphsage", SAMPLED),
     SL_EINVAL,
     {"sampler.replace: found true with sampler.time \"latest\"", "take the key out"}},
    {TIMED("\"latest\", \"subgraph\": \"induced\", \"expand\": \"new\", \"fanout\": [5, 5]",
           "external", ""),
     SL_EINVAL,
     {"sampler.subgraph: found another one with sampler.time \"latest\"", "\"directional\""}},
    {TIMED("\"uniform\"", "graphsage", SAMPLED ", \"task\": {\"kind\": \"link\"}"),
     SL_EINVAL,
     {"\"link\""}},
    {TIMED("\"uniform\"", "graphsage", SAMPLED ", \"features\": {\"kind\": \"learned\"}"),
     SL_EINVAL,
     {"features.kind: found learned rows with sampler.time \"uniform\"", "\"file\""}},
    {TIMED("\"uniform\"", "graphsage", SAMPLED ", \"nodes\": 2"),
     SL_EINVAL,
     {"nodes: found several nodes with sampler.time", "remove the key"}},
    {TIMED("\"none\", \"time_strict\": true", "graphsage", ""),
     SL_EINVAL,
     {"sampler.time_strict: found boolean true with sampler.time \"none\"", "\"uniform\" or"}},
    {JOB(", \"allocation\": {\"balance\": \"dynamic\"}"),
     SL_EINVAL,
     {"allocation.balance: found string \"dynamic\" with model.kind", "\"external\""}},
    {JOB(", \"allocation\": {\"cores\": \"pool\", \"switching\": false}"),
     SL_EINVAL,
     {"allocation.switching: found boolean false with allocation.cores \"pool\"", "\"fixed\""}},
    {CPU("\"cores\": -1"), SL_EINVAL, {"devices[0].cores: found number -1"}},
    {CPU("\"cores\": 1024"), SL_EINVAL, {"devices[0].cores: found number 1024"}},
    {CPU("\"cores\": 0.5"), SL_EINVAL, {"devices[0].cores: found number 0.5"}},
    {CPU("\"cores\": [0]"), SL_EINVAL, {"devices[0].cores: found list [0]"}},
    {CPU("\"cores\": \"\""), SL_EINVAL, {"devices[0].cores: found string \"\"", "missing"}},
    {CPU("\"cores\": \"3-1\""), SL_EINVAL, {"runs backwards"}},
    {CPU("\"cores\": \"0,0\""), SL_EINVAL, {"core 0 is listed twice"}},
    {CPU("\"cores\": \"0-256\""), SL_EINVAL, {"found 257 cores", "at most 256 in one device"}},
    {CPU("\"cores\": \"1023\""),
     SL_EINVAL,
     {"devices[0].cores: found core 1023", "this machine does not have", "among 0"}},
    {CPU("\"cores\": 0, \"memory\": \"12 megs\""),
     SL_EINVAL,
     {"devices[0].memory: found string \"12 megs\"", "\"512MiB\""}},
    {CPU("\"cores\": 0, \"memory\": \"512\""), SL_EINVAL, {"found string \"512\""}},
    {CPU("\"cores\": 0, \"memory\": \"MiB\""), SL_EINVAL, {"found string \"MiB\""}},
    {CPU("\"cores\": 0, \"memory\": \"1.MiB\""), SL_EINVAL, {"found string \"1.MiB\""}},
    {CPU("\"cores\": 0, \"memory\": \"-1MiB\""), SL_EINVAL, {"found string \"-1MiB\""}},
    {CPU("\"cores\": 0, \"memory\": 0"), SL_EINVAL, {"found number 0", "from 4KiB"}},
    {CPU("\"cores\": 0, \"memory\": 4096.5"), SL_EINVAL, {"found number 4096.5"}},
    {CPU("\"cores\": 0, \"memory\": \"99999999TiB\""), SL_EINVAL, {"devices[0].memory"}},
    {CPU("\"cores\": 0, \"memory\": \"auto\""), SL_EINVAL, {"found string \"auto\""}},
    {JOB(", \"arena\": {\"memory\": \"lots\"}"), SL_EINVAL, {"arena.memory", "or \"auto\""}},

    // models
    {KIND("gat", ", \"hidden\": 30, \"heads\": 8"),
     SL_EINVAL,
     {"model.hidden: found 30 with 8 heads", "a multiple of model.heads", "take 24 or 32"}},
    {KIND("gat", ", \"hidden\": 3, \"heads\": 4"), SL_EINVAL, {"take 4, or change model.heads"}},
    {KIND("gatv2", ", \"hidden\": 3, \"heads\": 4"), SL_EINVAL, {"take 4, or change model.heads"}},
    {KIND("rgat", ", \"hidden\": 30, \"heads\": 8"),
     SL_EINVAL,
     {"model.hidden: found 30 with 8 heads", "take 24 or 32"}},
    {KIND("rgatv2", ", \"hidden\": 30, \"heads\": 8"),
     SL_EINVAL,
     {"model.hidden: found 30 with 8 heads", "take 24 or 32"}},
    {KIND("rsage", ", \"share_weights\": true"),
     SL_EINVAL,
     {"model.share_weights: found", "only with \"rgat\" or \"rgatv2\":"}},
    {KIND("hgt", ", \"hidden\": 30, \"heads\": 8"),
     SL_EINVAL,
     {"model.hidden: found 30 with 8 heads", "take 24 or 32"}},
    {KIND("hgt", ", \"attention_dropout\": 0.1"),
     SL_EINVAL,
     {"model.attention_dropout: found", "only with \"gat\", \"gatv2\", \"rgat\" or \"rgatv2\":"}},
    {KIND("rgcn", ", \"hidden\": 30, \"blocks\": 8"),
     SL_EINVAL,
     {"model.hidden: found 30 with 8 blocks", "a multiple of model.blocks", "take 24 or 32"}},
    {KIND("rgcn", ", \"bases\": 3, \"blocks\": 8"),
     SL_EINVAL,
     {"model.blocks: found 8 beside model.bases 3", "take one of the keys out"}},
    {KIND("rsage", ", \"bases\": 3"), SL_EINVAL, {"model.bases: found", "only with \"rgcn\""}},
    {KIND("rsage", ", \"jumping\": \"cat\""), SL_EINVAL, {"model.jumping: found", "rsage"}},
    {KIND("hgt", ", \"edge_features\": true"),
     SL_EINVAL,
     {"model.edge_features: found", "only with \"gat\", \"gatv2\", \"rgat\" or \"rgatv2\":"}},
    {"{\"dataset\": \"d\", \"model\": {\"kind\": \"rgat\", \"edge_features\": true}, "
     "\"sampler\": {\"kind\": \"walk\"}}",
     SL_EINVAL,
     {"model.edge_features: found true with sampler.kind \"walk\"", "take \"khop\""}},
    {"{\"dataset\": \"d\", \"model\": {\"kind\": \"rgat\", \"edge_features\": true}, "
     "\"task\": {\"kind\": \"link\"}, \"evaluate\": {\"val_edges_as_input\": true}}",
     SL_EINVAL,
     {"evaluate.val_edges_as_input: found true with model.edge_features", "one of the two keys"}},
    {KIND("rgcn", ", \"residual\": true"),
     SL_EINVAL,
     {"model.residual: found", "only with \"gat\", \"gatv2\", \"rgat\" or \"rgatv2\":"}},
    {KIND("gat", ", \"relations\": \"mean\""),
     SL_EINVAL,
     {"model.relations: found", "only with \"rsage\", \"rgat\" or \"rgatv2\""}},
    {KIND("gat", ", \"heads\": 0"), SL_EINVAL, {"model.heads: found number 0", "from 1 to 256"}},
    {KIND("gat", ", \"attention_dropout\": 1"), SL_EINVAL, {"model.attention_dropout: found"}},
    {KIND("gcn", ", \"heads\": 4"),
     SL_EINVAL,
     {"model.heads: found", "only with \"gat\", \"gatv2\", \"rgat\", \"rgatv2\" or \"hgt\":"}},
    {KIND("gin", ", \"residual\": true"), SL_EINVAL, {"model.residual", "only with \"gat\""}},
    {KIND("gat", ", \"train_eps\": true"), SL_EINVAL, {"model.train_eps", "only with \"gin\""}},
    {KIND("gat", ", \"aggregator\": \"max\""),
     SL_EINVAL,
     {"model.aggregator", "only with \"graphsage\""}},
    {KIND("graphsage", ", \"aggregator\": \"lstm\""),
     SL_EINVAL,
     {"model.aggregator: found string \"lstm\"", "\"mean\", \"max\" or \"gcn\""}},
    {KIND("graphsage", ", \"self_loops\": false"), SL_EINVAL, {"only with \"gcn\""}},
    {KIND("pinsage", ", \"degrees\": \"block\""), SL_EINVAL, {"only with \"gcn\""}},
    {MODEL(", \"norm\": \"instance\""), SL_EINVAL, {"\"none\", \"batch\" or \"layer\""}},
    {MODEL(", \"jumping\": \"lstm\""), SL_EINVAL, {"\"last\", \"cat\" or \"max\""}},
    {MODEL(", \"activation\": \"gelu\""), SL_EINVAL, {"\"relu\", \"elu\" or \"leaky_relu\""}},
    {MODEL(", \"weights\": \"\""), SL_EINVAL, {"model.weights: found string \"\""}},

    // what training makes small, and how
    {JOB(", \"loss\": {\"class_weights\": \"even\"}"),
     SL_EINVAL,
     {"loss.class_weights: found string \"even\"", "a list of 1 to 256 numbers",
      "\"none\" or \"balanced\""}},
    {JOB(", \"loss\": {\"class_weights\": []}"), SL_EINVAL, {"loss.class_weights: found list []"}},
    {JOB(", \"loss\": {\"class_weights\": [1, -2]}"),
     SL_EINVAL,
     {"loss.class_weights: entry 1: found number -2", "from 0 to"}},
    {JOB(", \"loss\": {\"class_weights\": [1, \"2\"]}"), SL_EINVAL, {"entry 1: found string"}},
    {JOB(", \"loss\": {\"class_weights\": 3}"), SL_EINVAL, {"found number 3"}},
    {OPTIMIZER("\"kind\": \"sgd\", \"beta1\": 0.5"),
     SL_EINVAL,
     {"optimizer.beta1", "only with \"adam\"", "\"adamw\""}},
    {OPTIMIZER("\"kind\": \"adamw\", \"momentum\": 0.5"), SL_EINVAL, {"only with \"sgd\""}},
    {OPTIMIZER("\"gamma\": 0.5"), SL_EINVAL, {"optimizer.gamma", "only with \"step\""}},
    {OPTIMIZER("\"min_lr\": 0.5"), SL_EINVAL, {"optimizer.min_lr", "only with \"cosine\""}},
    {OPTIMIZER("\"schedule\": \"cosine\", \"lr\": 0.1, \"min_lr\": 0.2"),
     SL_EINVAL,
     {"optimizer.min_lr: found 0.2 with optimizer.lr 0.1", "at most that"}},
    {OPTIMIZER("\"schedule\": \"step\", \"step_epochs\": 0"), SL_EINVAL, {"step_epochs: found"}},
    {JOB(", \"epochs\": 10, \"optimizer\": {\"warmup_epochs\": 10.5}"),
     SL_EINVAL,
     {"optimizer.warmup_epochs: found 10.5 with 10 epochs", "lower it, or raise epochs"}},
    {OPTIMIZER("\"clip_norm\": -1"), SL_EINVAL, {"optimizer.clip_norm: found number -1"}},
    {JOB(", \"early_stopping\": {\"patience\": 3}, \"evaluate\": {\"every\": 0}"),
     SL_EINVAL,
     {"early_stopping.patience: found 3 with evaluate.every 0", "set evaluate.every to 1"}},
    {JOB(", \"early_stopping\": {\"min_delta\": -1}"), SL_EINVAL, {"min_delta: found number -1"}},
    {JOB(", \"evaluate\": {\"metric\": \"f1\"}"),
     SL_EINVAL,
     {"evaluate.metric: found string \"f1\"", "\"micro_f1\""}},
    {JOB(", \"patience\": 3"), SL_EINVAL, {"did you mean early_stopping.patience?"}},
    {JOB(", \"checkpoint\": {\"keep\": 0}"), SL_EINVAL, {"checkpoint.keep: found number 0"}},
    {JOB(", \"checkpoint\": {\"every_updates\": 1.5}"), SL_EINVAL, {"found number 1.5"}},

    // names become paths
    {JOB(", \"name\": \"a/b\""), SL_EINVAL, {"name: found string \"a/b\"", "without \"/\""}},
    {JOB(", \"name\": \"..\""), SL_EINVAL, {"name: found string \"..\""}},
    {JOB(", \"name\": \"a\\nb\""), SL_EINVAL, {"name: found string \"a\\nb\""}},
};

LOOP_TEST(a_mistake_is_explained, 0, sizeof mistakes / sizeof mistakes[0])
{
    const struct mistake *m = &mistakes[_i];
    int rc = sl_config_parse(m->text, strlen(m->text), "jobs/t.json", &config);
    ck_assert_msg(rc == m->code, "%s: found %s (%s), wanted %s", m->text, sl_strerror(rc),
                  rc < 0 ? sl_error_message() : "", sl_strerror(m->code));
    const char *message = sl_error_message();
    ck_assert_msg(strncmp(message, "jobs/t.json: ", 13) == 0, "no file's name: %s", message);
    ck_assert_msg(strchr(message, '\n') == NULL, "more than a line: %s", message);
    for (int i = 0; i < 4 && m->parts[i]; i++)
        ck_assert_msg(strstr(message, m->parts[i]) != NULL, "\"%s\" is not in: %s", m->parts[i],
                      message);
}

// Keys that mean nothing beside the others, stating their default.
static const char *const harmless[] = {
    JOB(", \"optimizer\": {\"kind\": \"adam\", \"momentum\": 0}"),
    JOB(", \"sampler\": {\"paths\": 10, \"length\": 3, \"restart\": 0.5}"),
    JOB(", \"updates\": {\"staleness\": 4}"),
    JOB(", \"updates\": {\"mode\": \"async\", \"batches_per_update\": 1}"),
    JOB(", \"updates\": {\"mode\": \"async\", \"exchange\": \"board\"}"),
    JOB(", \"epochs\": 1, \"cache\": {\"presample_epochs\": 1, \"ratio\": \"auto\","
        " \"report_optimal\": false}"),
};

LOOP_TEST(a_default_may_be_stated_where_it_means_nothing, 0, sizeof harmless / sizeof harmless[0])
{
    const char *text = harmless[_i];
    int rc = sl_config_parse(text, strlen(text), "t.json", &config);
    ck_assert_msg(rc == SL_OK, "%s", sl_error_message());
}

TEST(too_many_devices_are_refused)
{
    static char text[8192] = "{\"dataset\": \"d\", \"model\": {\"kind\": \"gcn\"}, \"devices\": [";
    for (int i = 0; i < 65; i++)
        strcat(text, i ? ",{\"kind\":\"cpu\",\"cores\":0}" : "{\"kind\":\"cpu\",\"cores\":0}");
    strcat(text, "]}");
    ck_assert_int_eq(sl_config_parse(text, strlen(text), "t.json", &config), SL_EINVAL);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "found 65 devices, wanted 1 to 64"));
}

TEST(too_many_entries_of_the_schedule_are_refused)
{
    static char text[8192] = "{\"dataset\": \"d\", \"model\": {\"kind\": \"gcn\"}, \"schedule\": [";
    for (int i = 0; i < 65; i++) {
        char entry[96];
        snprintf(entry, sizeof entry,
                 "%s{\"epoch\": 1, \"batch\": %d, \"samplers\": 1, \"trainers\": 1}", i ? "," : "",
                 i);
        strcat(text, entry);
    }
    strcat(text, "]}");
    ck_assert_int_eq(sl_config_parse(text, strlen(text), "t.json", &config), SL_EINVAL);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "found 65 entries, wanted 0 to 64: correct"));
}

TEST(deep_nesting_is_refused_where_it_begins)
{
    enum { DEPTH = 100000 };
    char *text = malloc(DEPTH + 32);
    strcpy(text, "{\"a\":");
    memset(text + 5, '[', DEPTH);
    text[5 + DEPTH] = '\0';
    ck_assert_int_eq(sl_config_parse(text, strlen(text), "t.json", &config), SL_EFORMAT);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "line 1, column 37: found brackets nested"));
    free(text);
}

TEST(a_long_value_is_cut_in_the_message)
{
    enum { LENGTH = 500000 };
    char *text = malloc(LENGTH + 100);
    strcpy(text, "{\"dataset\": \"d\", \"model\": {\"kind\": \"");
    size_t n = strlen(text);
    memset(text + n, 'x', LENGTH);
    strcpy(text + n + LENGTH, "\"}}");
    ck_assert_int_eq(sl_config_parse(text, strlen(text), "t.json", &config), SL_EINVAL);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "xxx...\", wanted \"graphsage\""));
    ck_assert_uint_lt(strlen(sl_error_message()), 340);
    free(text);
}

TEST(a_long_file_name_leaves_room_for_the_message)
{
    char origin[4000];
    memset(origin, 'd', sizeof origin);
    strcpy(origin + sizeof origin - 8, "/t.json");
    const char *text = JOB(", \"epochs\": 0");
    ck_assert_int_eq(sl_config_parse(text, strlen(text), origin, &config), SL_EINVAL);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "/t.json: epochs: found number 0, wanted"));
}

TEST(a_nul_inside_the_text_is_refused)
{
    const char text[] = "{\"dataset\": \"d\",\0 \"model\": {\"kind\": \"gcn\"}}";
    ck_assert_int_eq(sl_config_parse(text, sizeof text - 1, "t.json", &config), SL_EFORMAT);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "column 17: found byte 0x00"));
}

RUN_TESTS(.timeout_s = 20)
