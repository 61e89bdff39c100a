/*
 * model_kinds.h - the kinds of layers that model.kind names, a line each. A new kind is a line here
 * and trainer/model/layer_NAME.c, which fills struct sl_layer_kind sl_layer_NAME (model/layer.h):
 * the enumeration, the words of the job file and the trainer's table come from these lines.
 */
#ifndef SL_CONFIG_MODEL_KINDS_H
#define SL_CONFIG_MODEL_KINDS_H

#define SL_MODEL_KINDS(X)                                                                          \
    X(GRAPHSAGE, graphsage)                                                                        \
    X(GCN, gcn)                                                                                    \
    X(GAT, gat)                                                                                    \
    X(GATV2, gatv2)                                                                                \
    X(GIN, gin)                                                                                    \
    X(PINSAGE, pinsage)

// Those of graphs of several types: struct sl_typed_kind sl_typed_NAME (model/typed_layer.h).
#define SL_MODEL_TYPED_KINDS(X)                                                                    \
    X(RSAGE, rsage)                                                                                \
    X(RGAT, rgat)                                                                                  \
    X(RGATV2, rgatv2)                                                                              \
    X(RGCN, rgcn)                                                                                  \
    X(HGT, hgt)

// Those with attention heads, in words: the keys of attention belong to them.
#define SL_MODEL_WITH_HEADS "gat or gatv2 or rgat or rgatv2 or hgt"
// Those that drop attention coefficients, likewise.
#define SL_MODEL_WITH_ATTENTION_DROPOUT "gat or gatv2 or rgat or rgatv2"
#define SL_MODEL_WITH_RESIDUAL          "gat or gatv2 or rgat or rgatv2"
#define SL_MODEL_WITH_EDGE_FEATURES     "gat or gatv2 or rgat or rgatv2"
// Those whose sums model.degrees scales, likewise.
#define SL_MODEL_WITH_DEGREES "gcn or gin"
// Those of graphs of several types, likewise; the others are of graphs of one.
#define SL_MODEL_OF_TYPES "rsage or rgat or rgatv2 or rgcn or hgt"

#endif
