// Edge lists as other programs write them: which column means what, what headings say, encodings.
#include "cli/command.h"
#include "tests/unit/import_fixture.h"
#include "tests/unit/suite.h"

// A text, options, and what comes of it: the topology and, with `said`, words of the summary; or
// what the message says.
struct example {
    const char *text;
    const char *options[4];
    const char *wanted, *said;
    bool refused;
};

// What the import said: its summary, or why not; until the next one.
static const char *import(const struct example *x, const char *text, size_t n)
{
    static char *summary;
    write_file("edges", text, n);
    free(summary);
    capture_begin();
    int rc = RUN(sl_command_import, "import", "edgelist", in_dir("edges"), "--out", in_dir("a"),
                 x->options[0], x->options[1], x->options[2], x->options[3]);
    summary = capture_end();
    ck_assert_msg((rc < 0) == x->refused, "%d: %s", rc, rc < 0 ? sl_error_message() : summary);
    return rc < 0 ? sl_error_message() : summary;
}

static void try(const struct example *x)
{
    const char *said = import(x, x->text, strlen(x->text));
    const char *wanted = x->refused ? x->wanted : x->said;
    ck_assert_msg(!wanted || strstr(said, wanted), "wanted '%s' in: %s", wanted, said);
    if (!x->refused)
        ck_assert_str_eq(topology("a"), x->wanted);
}

// ---- columns ------------------------------------------------------------------------------------

static const struct example columns[] = {
    // By number: what stands between and behind is not read.
    {"0 likes 1 2020\n1 hates 2 2021\n", {"--columns", "1,3"}, "1<0 2<1 of 3", NULL, false},
    {"0 5 1\n1 5 2\n", {"--columns", "3,1"}, "0<1 1<2 of 3", NULL, false},
    {"7,0,x,1,2.5\n7,1,,2,3\n", {"--columns", "2,4,5"}, "1<0:2.5 2<1:3 of 3", NULL, false},
    {"0\t\t1\n1\t\"a\tb\"\t2\n", {"--columns", "1,3"}, "1<0 2<1 of 3", NULL, false},
    // By the names of a heading row, in any place and with quotes.
    {"item,\"user, id\",rating,ts\n\"1\",\"0\",\"2\",9\n2,1,4,9\n",
     {"--columns", "\"user, id\",item,rating"},
     "1<0:2 2<1:4 of 3",
     NULL,
     false},
    {"source;target;relation\n0;1;x\n1;2;y\n",
     {"--columns", "source,target"},
     "1<0 2<1 of 3",
     NULL,
     false},
    {"source,target,time\n0,1,1234567890\n",
     {"--columns", "source,target,time"},
     "1<0 of 2",
     NULL,
     false},
    {"\xEF\xBB\xBFsource,target\n0,1\n", {"--columns", "source,target"}, "1<0 of 2", NULL, false},
    {"\"a \"\"b\"\"\",c,\"d\"\n0,1,\"2\"\n",
     {"--columns", "\"a \"\"b\"\"\",c,d"},
     "1<0:2 of 2",
     NULL,
     false},
    {"\"a, \"\"b\"\", c\";d\"e;w\"\n0;1;2\n", {"--columns", "d\"e,w\""}, "2<1 of 3", NULL, false},
    // Without a heading row those words say what the columns are.
    {"0 1 1234567890\n", {"--columns", "source,target,time"}, "1<0 of 2", NULL, false},
    {"0 1 3\n", {"--columns", "source,target,weight"}, "1<0:3 of 2", NULL, false},
    {"0 1 3 1234567890\n", {"--columns", "source,target,weight,time"}, "1<0:3 of 2", NULL, false},
    {"0 1 3 1234567890\n", {"--columns", "1,2,3"}, "1<0:3 of 2", NULL, false},
    {"0 1 3 1234567890\n", {"--columns", "1,2,3", "--no-weights"}, "1<0 of 2", NULL, false},
    {"0 1 3 4 5\n1 0 3\n", {"--no-weights"}, "0<1 1<0 of 2", NULL, false},
    // A third column is the weight; one that looks like times is named.
    {"0 1 1234567890\n1 2 1234567891\n", {NULL}, NULL, "column 3 looks like times", false},
    {"0,1,100000000\n", {NULL}, "1<0:1e+08 of 2", "--no-weights leaves them out", false},
    // Weights that are all 1 say nothing, unless they are asked for or summed up.
    {"0 1 1\n1 2 1.0\n", {NULL}, "1<0 2<1 of 3", "which are all 1 (--weights keeps them)", false},
    {"0 1 1\n1 2 1\n", {"--weights"}, "1<0:1 2<1:1 of 3", NULL, false},
    {"0 1 1\n0 1 1\n", {"--dedup", "--duplicates", "sum"}, "1<0:2 of 2", NULL, false},
    // Quotes, separators at the end of a line.
    {"\"0\",\"1\",\"2.5\"\n0,2,1,\n", {NULL}, "1<0:2.5 2<0:1 of 3", NULL, false},
    {"0,1,\n1,2\n", {NULL}, "1<0 2<1 of 3", NULL, false},
    {"0,1\n1 2\n", {"--separator", "blanks"}, "1<0 2<1 of 3", NULL, false},

    {"0 1 2 3\n", {NULL}, "line 1: found 4 columns: wanted", NULL, true},
    {"0,1\n1 2\n", {NULL}, "line 2: found '1 2': wanted columns between separators", NULL, true},
    {"0,,1\n", {NULL}, "line 1: found 'an empty field'", NULL, true},
    {"0,1\n\"1,2\n", {NULL}, "line 2: found '\"1': wanted a quote that is closed", NULL, true},
    {"0,\"1\"2\n", {NULL}, "line 1: found '\"1\"2': wanted a quote that is closed", NULL, true},
    {"user,item\n0,1\n", {NULL}, "--columns takes the names", NULL, true},
    {"user,item\n0,1\n",
     {"--columns", "user,itme"},
     "found no column 'itme' in 'user, item'",
     NULL,
     true},
    {"0 1\n", {"--columns", "user,item"}, "found no column 'user' in '0, 1'", NULL, true},
    {"0 1\n", {"--columns", "1,3"}, "line 1: found 'the end of the line'", NULL, true},
    {"0 1\n1 2 3\n",
     {"--columns", "1,2,3"},
     "found 'the end of the line': wanted a weight",
     NULL,
     true},
    {"0 1\n", {"--columns", "1"}, "--columns '1': it is one column", NULL, true},
    {"0 1\n", {"--columns", "1,2,1"}, "it has a column twice", NULL, true},
    {"0 1\n", {"--columns", "1,01"}, "it has a column twice", NULL, true},
    {"0 1\n", {"--columns", "1,2,3,4,5"}, "it is too many columns", NULL, true},
    {"0 1\n", {"--columns", "0,1"}, "it has a number that no column", NULL, true},
    {"0 1\n", {"--columns", "1,9999"}, "it has a number that no column", NULL, true},
};

LOOP_TEST(columns_are_named_or_counted, 0, SL_COUNT_OF(columns))
{
    if (columns[_i].wanted)
        try(&columns[_i]);
    else
        ck_assert_ptr_nonnull(strstr(
            import(&columns[_i], columns[_i].text, strlen(columns[_i].text)), columns[_i].said));
}

// ---- headings -----------------------------------------------------------------------------------

static const struct example headings[] = {
    // KONECT: each edge of an undirected graph stands once.
    {"% sym unweighted\n% 2 3 3\n1 2\n2\t3\n",
     {NULL},
     "1<2 2<1,3 3<2 of 4",
     "both: every edge has its reverse ('% sym unweighted' in line 1; --no-undirected",
     false},
    {"% sym\n1 2\n",
     {"--no-undirected"},
     "2<1 of 3",
     "one, as the source has it (--no-undir",
     false},
    {"% asym positive\n1 2\n", {NULL}, "2<1 of 3", "has it ('% asym positive' in line 1;", false},
    {"% asym positive\n1 2\n",
     {"--undirected"},
     "1<2 2<1 of 3",
     "its reverse (--undirected)",
     false},
    {"% sym posweighted\n1 2 5\n1 1 3\n", {NULL}, "1<1:3,2:5 2<1:5 of 3", NULL, false},
    {"% sym posweighted\n1 2 5\n2 1 3\n", {"--symmetrise"}, "1<2:3 2<1:5 of 3", NULL, false},
    // Its third column is the weight or how often an edge is there, its fourth a time.
    {"% asym positive\n33\t28 2\t1138211184\n", {NULL}, "28<33:2 of 34", NULL, false},
    {"% asym unweighted\n1 2 1 1138211184\n2 3 1 1138211185\n",
     {NULL},
     "2<1 3<2 of 4",
     "none, by '% asym unweighted' in line 1 (--weights reads the third",
     false},
    {"% asym unweighted\n1 2 7\n", {"--weights"}, "2<1:7 of 3", NULL, false},
    {"% sym dynamic\n1 2 -1 9\n", {NULL}, "'% sym dynamic', whose third column says", NULL, true},
    {"% asym dynamic\n1 2 -1 9\n", {"--no-weights"}, "2<1 of 3", NULL, false},
    {"% asym signed\n1 2 -1\n", {NULL}, "found '-1': wanted a weight from 0", NULL, true},
    // Of a bipartite graph each side is numbered from 1: edge 1-1 is no self-loop.
    {"% bip unweighted\n% 3 2 2\n1 1\n1 2\n2 2\n",
     {NULL},
     "1<3,4 2<4 3<1 4<1,2 of 5",
     "ids of the second are stored higher by 2",
     false},
    {"% bip unweighted\n1 1\n", {NULL}, "where each side is numbered from 1, without", NULL, true},
    {"% bip unweighted\n1 1\n", {"--bipartite", "2"}, "1<3 3<1 of 4", NULL, false},
    {"% bip unweighted\n1 2\n", {"--bipartite", "0"}, "1<2 2<1 of 3", NULL, false},
    {"% bip unweighted\n% 1 1 1\n2 1\n",
     {NULL},
     "found '2': wanted ids of the first side from 1",
     NULL,
     true},
    {"0 0\n1 0\n", {"--bipartite", "2"}, "2<0,1 of 3", "one, as the source has it (--sym", false},
    {"0 0\n2 0\n",
     {"--bipartite", "2"},
     "ids of the first side from 0, as there is one",
     NULL,
     true},
    {"% bip unweighted\n% 2 2 2\n1 1\n2 2\n", {"--relabel"}, "0<2 1<3 2<0 3<1 of 4", NULL, false},
    {"% bip\n% 1 2 2\n1 2\n",
     {"--num-nodes", "4"},
     "found '4': wanted vertex ids below",
     NULL,
     true},
    // SNAP, whose directed files may have both directions of an undirected graph.
    {"# Undirected graph: ../../data/output/dblp.ungraph.txt\n# DBLP\n# Nodes: 3 Edges: 2\n"
     "# FromNodeId\tToNodeId\n0\t1\n1\t2\n",
     {NULL},
     "0<1 1<0,2 2<1 of 3",
     "reverse ('# Undirected graph: ../../data/output/dblp.ungr' in line 1",
     false},
    {"# Directed graph (each unordered pair of nodes is saved once): Wiki-Vote.txt \n0 1\n",
     {NULL},
     "1<0 of 2",
     "as the source has it ('# Directed graph (each unordered",
     false},
    {"# Directed graph\r\n# Nodes: 3 Edges: 4\r\n0 1\r\n",
     {NULL},
     "1<0 of 2",
     "edges by the heading  4, but 1 were read: is the file whole?",
     false},
    {"# who follows whom\n0 1\n",
     {NULL},
     "1<0 of 2",
     "one, as the source has it (--symmetrise adds reverse edges)",
     false},
    // Words of other comments, and comments behind the first edge, say nothing.
    {"% symmetric\n# undirected\n% bipartite\n0 1\n% sym unweighted\n1 2\n",
     {NULL},
     "1<0 2<1 of 3",
     "as the source has it (--sym",
     false},
    // What is left out is not read.
    {"% sym unweighted\n1 2\n", {"--skip-lines", "1"}, "2<1 of 3", "has it (--symm", false},
    {"%%MatrixMarket matrix coordinate pattern general\n9 9 2\n1 2\n2 3\n",
     {NULL},
     "give it to 'sluice import mtx'",
     NULL,
     true},
    {"%MatrixMarket matrix coordinate pattern symmetric\n4 4 1\n2 1\n",
     {"--no-weights"},
     "found a heading of Matrix Market's",
     NULL,
     true},
};

LOOP_TEST(headings_say_what_the_graph_is, 0, SL_COUNT_OF(headings))
{
    try(&headings[_i]);
}

TEST(metadata_says_what_was_read)
{
    const struct example x = {
        "% bip posweighted\n% 1 2 2\n1 1 5\n", {NULL}, "1<3:5 3<1:5 of 4", NULL, false};
    try(&x);
    char text[4096] = "";
    FILE *f = fopen(in_dir("a/metadata.json"), "r");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_gt(fread(text, 1, sizeof text - 1, f), 0);
    fclose(f);
    ck_assert_ptr_nonnull(strstr(text, "\"directed\":"));
    ck_assert_ptr_nonnull(strstr(text, "false"));
    ck_assert_ptr_nonnull(strstr(text, "% bip posweighted"));
    ck_assert_ptr_nonnull(strstr(text, "\"first_side\":"));
}

// ---- encodings ----------------------------------------------------------------------------------

static const struct {
    const char *text;
    size_t n;
    const char *wanted; // NULL: it is read
} encodings[] = {
    {"\xEF\xBB\xBF% asym unweighted\n0 1\n", 25, NULL},
    {"\xEF\xBB\xBF", 3, "found no edge in 1 lines"},
    {"\xFF\xFE"
     "0\0 \0001\0\n\0",
     10, "found UTF-16 text: wanted UTF-8: 'iconv -f UTF-16 -t UTF-8 FILE > NEW'"},
    {"\xFE\xFF\0000\0 \0001\0\n", 10, "found UTF-16 text"},
    {"0\0 \0001\0\n\0", 8, "found UTF-16LE text: wanted UTF-8: 'iconv -f UTF-16LE"},
    {"\0000\0 \0001\0\n", 8, "found UTF-16BE text"},
    {"\xFF\xFE\0\0000\0\0\0", 8, "found UTF-32 text"},
};

LOOP_TEST(encodings_are_known_by_their_marks, 0, SL_COUNT_OF(encodings))
{
    const struct example x = {NULL, {NULL}, NULL, NULL, encodings[_i].wanted != NULL};
    const char *said = import(&x, encodings[_i].text, encodings[_i].n);
    if (encodings[_i].wanted)
        ck_assert_msg(strstr(said, encodings[_i].wanted), "%s", said);
    else
        ck_assert_str_eq(topology("a"), "1<0 of 2");
}

RUN_TESTS(IN_A_DIRECTORY, .timeout_s = 60)
