#include "common/text/synonyms.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/base/bits.h"

#define KEY     SL_SYNONYM_KEY, NULL
#define VALUE   SL_SYNONYM_VALUE
#define COMMAND SL_SYNONYM_COMMAND, NULL

const char sl_synonym_gpu[] = "it is of a GPU";

// PyTorch, PyTorch Geometric, DGL, OGB's examples, Lightning, Slurm. A word that is a key here, or
// is spelt nearly as one, needs no row unless it would lead to the wrong one.
const struct sl_synonym sl_synonyms[] = {
    {KEY,
     "hidden_channels hidden_dim hidden_size hidden_feats num_hidden n_hidden nhid h_feats "
     "hidden_units",
     "model.hidden", NULL},
    {KEY, "num_layers n_layers num_hops n_conv num_convs depth", "model.layers", NULL},
    {KEY, "conv arch architecture gnn gnn_type model_type model_name layer_type conv_type",
     "model.kind", NULL},
    {KEY, "num_heads n_heads nheads", "model.heads", NULL},
    {KEY, "aggr aggregator_type aggregation", "model.aggregator", NULL},
    {KEY, "jk", "model.jumping", NULL},
    {KEY, "act act_fn nonlinearity", "model.activation", NULL},
    {KEY, "p_dropout drop_rate dropout_rate", "model.dropout", NULL},
    {KEY, "attn_drop attn_dropout", "model.attention_dropout", NULL},
    {KEY, "edge_dim edge_attr edge_feat", "model.edge_features", NULL},
    {KEY,
     "neg_sampling_ratio num_negatives num_neg neg_ratio negative_ratio num_neg_samples "
     "negative_sampling neg_sampling num_negative_samples",
     "task.per_positive", NULL},
    {KEY, "predictor link_predictor scorer score_fn", "task.decoder", NULL},
    {KEY, "evaluate.hits evaluate.topk evaluate.hits_k", "evaluate.k", NULL},
    {KEY, "pretrained pretrained_weights init_weights", "model.weights", NULL},
    {KEY, "embedding_dim emb_dim embed_dim learned_dim", "features.dim", NULL},
    {KEY,
     "num_neighbors num_neighbours neighbors neighbours neighbor_sizes sizes fanouts fan_out "
     "fan_outs num_samples",
     "sampler.fanout", NULL},
    {KEY, "batch batch_size mini_batch_size minibatch_size", "sampler.batch_size", NULL},
    {KEY, "sampling sampler_type", "sampler.kind", NULL},
    {KEY, "temporal temporal_sampling temporal_strategy time_attr", "sampler.time", NULL},
    {KEY, "metapath meta_path meta_paths", "sampler.metapaths", NULL},
    {KEY, "num_random_walks", "sampler.paths", NULL},
    {KEY, "num_traversals", "sampler.length", NULL},
    {KEY, "restart_prob termination_prob", "sampler.restart", NULL},
    {KEY, "num_workers workers n_workers num_sampling_workers", "allocation.samplers", NULL},
    {KEY, "world_size nproc nproc_per_node", "allocation.trainers", NULL},
    {KEY, "device gpu gpus cuda num_gpus n_gpus accelerator use_cuda gpu_id", "devices", NULL},
    {KEY, "learning_rate lr initial_lr", "optimizer.lr", NULL},
    {KEY, "optim", "optimizer", NULL},
    {KEY, "optimizer_type optimizer_name", "optimizer.kind", NULL},
    {KEY, "weight_decay wd l2 l2_reg", "optimizer.weight_decay", NULL},
    {KEY, "lr_scheduler scheduler lr_schedule", "optimizer.schedule", NULL},
    {KEY, "grad_clip clip_grad clip_grad_norm gradient_clip_val max_grad_norm",
     "optimizer.clip_norm", NULL},
    {KEY, "warmup", "optimizer.warmup_epochs", NULL},
    {KEY, "betas", "optimizer.beta1", NULL},
    {KEY, "accumulate_grad_batches gradient_accumulation accumulation_steps",
     "updates.batches_per_update", NULL},
    {KEY, "num_bases n_bases", "model.bases", NULL},
    {KEY, "num_blocks n_blocks", "model.blocks", NULL},
    {KEY, "num_epochs n_epochs max_epochs epoch", "epochs", NULL},
    {KEY, "random_seed manual_seed", "seed", NULL},
    {KEY, "amp fp16 mixed_precision dtype", "precision", NULL},
    {KEY, "eval_every eval_steps eval_interval val_every check_val_every_n_epoch", "evaluate.every",
     NULL},
    {KEY, "monitor eval_metric", "evaluate.metric", NULL},
    {KEY, "early_stop", "early_stopping.patience", NULL},
    {KEY, "save_every save_steps", "checkpoint.every_updates", NULL},
    {KEY, "data root data_dir data_path dataset_path dataset_dir data_root", "dataset", NULL},
    {KEY, "out_dir output_dir save_dir log_dir logdir run_dir checkpoint_dir default_root_dir",
     "output", NULL},
    {KEY, "devices[].gpu devices[].id devices[].gpu_id devices[].device", "devices[].index", NULL},
    {KEY, "devices[].type", "devices[].kind", NULL},
    {KEY, "in_channels in_feats in_dim in_size input_dim input_size num_features num_node_features",
     NULL, "the data set says how many features there are: leave it out"},
    {KEY, "out_channels out_feats out_dim out_size output_dim num_classes n_classes", NULL,
     "the data set says how many outputs there are: leave it out"},
    {KEY, "loss.kind loss.name loss.fn loss.type loss_fn loss_function criterion", NULL,
     "the data set's task says which loss it is (loss.class_weights weighs its classes), and of "
     "links task.loss: leave it out"},
    {KEY, "train training trainer", NULL,
     "what training does stands in optimizer, updates, epochs and early_stopping"},
    {KEY, "shuffle", NULL,
     "training vertices are shuffled unless order.kind says otherwise: leave it out"},
    {KEY, "pin_memory persistent_workers prefetch_factor drop_last non_blocking", NULL,
     "it is of another tool's loader, and there is nothing to set here: leave it out"},

    {VALUE, "model.kind", "sage sageconv", "\"graphsage\"", NULL},
    {VALUE, "model.kind", "gcnconv", "\"gcn\"", NULL},
    {VALUE, "model.kind", "gatconv", "\"gat\"", NULL},
    {VALUE, "model.kind", "gatv2conv", "\"gatv2\"", NULL},
    {VALUE, "model.kind", "ginconv", "\"gin\"", NULL},
    {VALUE, "model.kind", "rgraphsage heterosage hetero_sage", "\"rsage\"", NULL},
    {VALUE, "model.kind", "heterogat hetero_gat", "\"rgat\"", NULL},
    {VALUE, "model.kind", "rgatv2conv heterogatv2 hetero_gatv2", "\"rgatv2\"", NULL},
    {VALUE, "model.kind", "rgcnconv fastrgcnconv relgraphconv", "\"rgcn\"", NULL},
    {VALUE, "model.kind", "hgtconv", "\"hgt\"", NULL},
    {VALUE, "model.kind", "pinsageconv pinsagesampler", "\"pinsage\"", NULL},
    {VALUE, "model.norm", "bn batchnorm batchnorm1d batch_norm", "\"batch\"", NULL},
    {VALUE, "model.norm", "ln layernorm layer_norm", "\"layer\"", NULL},
    {VALUE, "model.activation", "leakyrelu", "\"leaky_relu\"", NULL},
    {VALUE, "model.aggregator", "avg average", "\"mean\"", NULL},
    {VALUE, "model.aggregator", "pool", "\"max\"", NULL},
    {VALUE, "sampler.kind",
     "neighbor neighbour neighborsampler neighborloader uniform multilayerneighborsampler "
     "khop_sampler",
     "\"khop\"", NULL},
    {VALUE, "sampler.kind", "laborsampler", "\"labor\"", NULL},
    {VALUE, "sampler.kind", "random_walk randomwalk pinsage", "\"walk\"", NULL},
    {VALUE, "task.kind", "edge edges edge_prediction link_prediction recommendation", "\"link\"",
     NULL},
    {VALUE, "task.kind", "node_classification node_regression classification regression",
     "\"node\"", NULL},
    {VALUE, "task.decoder", "inner inner_product dot_product innerproductdecoder", "\"dot\"", NULL},
    {VALUE, "task.loss", "binary_cross_entropy bcewithlogits bcewithlogitsloss logistic", "\"bce\"",
     NULL},
    {VALUE, "task.loss", "hinge max_margin margin_ranking triplet", "\"margin\"", NULL},
    {VALUE, "task.loss", "cross_entropy sampled_softmax infonce nce", "\"softmax\"", NULL},
    {VALUE, "task.negatives", "random", "\"uniform\"", NULL},
    {VALUE, "task.negatives", "popularity unigram", "\"degree\"", NULL},
    {VALUE, "task.negatives", "in_batch", "\"batch\"", NULL},
    {VALUE, "task.exclude", "reverse_id", "\"reverse\"", NULL},
    {VALUE, "optimizer.kind", "torch.optim.adam", "\"adam\"", NULL},
    {VALUE, "optimizer.kind", "torch.optim.adamw", "\"adamw\"", NULL},
    {VALUE, "optimizer.kind", "torch.optim.sgd momentum", "\"sgd\"", NULL},
    {VALUE, "optimizer.schedule", "cosineannealinglr cosineannealing", "\"cosine\"", NULL},
    {VALUE, "optimizer.schedule", "steplr multisteplr", "\"step\"", NULL},
    {VALUE, "optimizer.schedule", "none", "\"constant\"", NULL},
    {VALUE, "precision", "bfloat16 bf16-mixed half float16 fp16 16 16-mixed amp", "\"bf16\"", NULL},
    {VALUE, "precision", "float32 float 32 32-true", "\"fp32\"", NULL},
    {VALUE, "evaluate.metric", "acc", "\"accuracy\"", NULL},
    {VALUE, "evaluate.metric", "auc rocauc auroc", "\"roc_auc\"", NULL},
    {VALUE, "evaluate.metric", "f1 f1_micro", "\"micro_f1\"", NULL},
    {VALUE, "evaluate.metric", "f1_macro", "\"macro_f1\"", NULL},
    {VALUE, "evaluate.metric", "ap", "\"average_precision\"", NULL},
    {VALUE, "evaluate.metric", "hits@k hit_rate", "\"hits\"", NULL},
    {VALUE, "evaluate.metric", "hits@# hits#", "\"hits\"", "its K is evaluate.k"},
    {VALUE, "evaluate.metric", "val_loss", "\"loss\"", NULL},
    {VALUE, "evaluate.fanout", "all", "\"full\"", NULL},
    {VALUE, "devices", "gpu cuda gpu:0 gpu0 cuda0", "[{\"kind\": \"cuda\", \"index\": 0}]",
     sl_synonym_gpu},
    {VALUE, "devices", "cuda:# gpu:#", "[{\"kind\": \"cuda\", \"index\": #}]", sl_synonym_gpu},
    {VALUE, "devices", "gpus all", "\"auto\"", sl_synonym_gpu},
    {VALUE, "devices[].kind", "gpu cuda:#", "\"cuda\"", sl_synonym_gpu},

    {COMMAND, "train fit start launch main.py train.py", "run", NULL},
    {COMMAND, "sbatch enqueue", "submit", NULL},
    {COMMAND, "eval evaluate infer inference test apply score", "predict", NULL},
    {COMMAND, "embedding embeddings", "embed", NULL},
    {COMMAND, "recommend nearest neighbours knn topk", "retrieve", NULL},
    {COMMAND, "list ls jobs queue squeue", "ps", NULL},
    {COMMAND, "status monitor metrics", "stats", NULL},
    {COMMAND, "dashboard watch htop gui ui", "top", NULL},
    {COMMAND, "kill cancel scancel abort terminate quit", "stop", NULL},
    {COMMAND, "continue", "resume", NULL},
    {COMMAND, "suspend", "pause", NULL},
    {COMMAND, "log tail", "logs", NULL},
    {COMMAND, "results summary plot tensorboard history", "report", NULL},
    {COMMAND, "profile profiler timeline", "trace", NULL},
    {COMMAND, "convert download preprocess load", "import", NULL},
    {COMMAND, "load-weights load_state_dict import-model", "import-weights", NULL},
    {COMMAND, "make-data synthesize create", "generate", NULL},
    {COMMAND, "info describe validate check show", "inspect", NULL},
    {COMMAND, "renumber", "reorder", NULL},
    {COMMAND, "RandomLinkSplit train_test_split_edges holdout split", "split-edges", NULL},
    {COMMAND, "propagate aggregate fill-features mean-features", "featurize", NULL},
    {COMMAND, "partition_graph shard metis", "partition", NULL},
    {COMMAND, "rescale resize allocate", "scale", NULL},
    {COMMAND, "devices gpus gpu nvidia-smi diagnose", "doctor", NULL},
    {COMMAND, "config keys options", "schema", NULL},
};
const size_t sl_n_synonyms = SL_COUNT_OF(sl_synonyms);

static bool counts(char c)
{
    return c != '_' && c != '-' && c != ' ';
}

// Whether `word` is what stands in [row, end); *number: the digits that '#' stood for, "" for none.
static bool is_word(const char *row, const char *end, const char *word, char number[16])
{
    size_t n = 0;
    number[0] = '\0';
    for (;; row++, word++) {
        while (row < end && !counts(*row))
            row++;
        while (*word && !counts(*word))
            word++;
        if (row == end || !*word)
            return row == end && !*word;
        if (*row == '#' && isdigit((unsigned char)*word)) {
            while (isdigit((unsigned char)*word) && n < 15)
                number[n++] = *word++;
            number[n] = '\0';
            word--;
        } else if (tolower((unsigned char)*row) != tolower((unsigned char)*word)) {
            return false;
        }
    }
}

static bool is_among(const char *words, const char *word, char number[16])
{
    for (const char *at = words, *end; *at; at = *end ? end + 1 : end) {
        end = at + strcspn(at, " ");
        if (is_word(at, end, word, number))
            return true;
    }
    return false;
}

const struct sl_synonym *sl_synonym_find(enum sl_synonym_of of, const char *key, const char *word,
                                         char means[SL_SYNONYM_BYTES])
{
    char number[16];
    means[0] = '\0';
    for (size_t i = 0; i < sl_n_synonyms; i++) {
        const struct sl_synonym *s = &sl_synonyms[i];
        if (s->of != of || (of == SL_SYNONYM_VALUE && strcmp(s->key, key) != 0) ||
            !is_among(s->words, word, number))
            continue;
        const char *hole = s->means ? strchr(s->means, '#') : NULL;
        if (hole)
            snprintf(means, SL_SYNONYM_BYTES, "%.*s%s%s", (int)(hole - s->means), s->means, number,
                     hole + 1);
        else
            snprintf(means, SL_SYNONYM_BYTES, "%s", s->means ? s->means : "");
        return s;
    }
    return NULL;
}
