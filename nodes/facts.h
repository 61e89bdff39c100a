/*
 * facts.h - what a node has that has to be the same on all of them, and what is wrong with it.
 *
 * A node writes down facts (its sluice, its job file, each file of its data set); the first node
 * reads all of them and compares. A value that most nodes have is wanted, of two as frequent the
 * first node's.
 */
#ifndef SL_NODES_FACTS_H
#define SL_NODES_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// X(KIND, "word", what to do where nodes differ)
#define SL_FACTS_MAP(X)                                                                            \
    X(SLUICE, "sluice", "install the same build on all nodes")                                     \
    X(ISA, "instruction set",                                                                      \
      "results would differ in their last bits: set SLUICE_ISA to the least of them everywhere")   \
    X(PAGE, "page size", "use nodes of one kind")                                                  \
    X(JOB, "job file", "start all nodes with the same file")                                       \
    X(DATA, "data set", "copy the data set of a node that has it right")                           \
    X(PROBLEM, "problem", "")                                                                      \
    X(WARNING, "warning", "")

enum sl_fact_kind {
#define SL_FACT_ENUM(kind, word, advice) SL_FACT_##kind,
    SL_FACTS_MAP(SL_FACT_ENUM)
#undef SL_FACT_ENUM
        SL_FACT_KINDS,
};

struct sl_fact {
    enum sl_fact_kind kind;
    char name[64];    // of several of a kind: "indices.npy"; else ""
    char value[1024]; // of PROBLEM and WARNING the sentence
};

struct sl_facts {
    struct sl_fact *fact; // (n), owned
    size_t n;
};

// A tabulator or newline becomes a blank. SL_ENOMEM.
int sl_facts_add(struct sl_facts *f, enum sl_fact_kind kind, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
char *sl_facts_write(const struct sl_facts *f);          // owned: free(); NULL: no memory
int sl_facts_read(struct sl_facts *f, const char *text); // SL_EFORMAT, SL_ENOMEM
void sl_facts_fini(struct sl_facts *f);                  // safe on a zeroed struct

struct sl_node_note {
    bool is_problem; // a job cannot start so; else a warning
    char *text;      // owned
};

struct sl_node_notes {
    struct sl_node_note *note; // (n), owned
    size_t n, problems;
};

// What is said already is not said again (of two processes on one host). SL_ENOMEM.
int sl_node_notes_add(struct sl_node_notes *notes, bool is_problem, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void sl_node_notes_fini(struct sl_node_notes *notes); // safe on a zeroed struct

// Notes of what differs, and of what nodes say is wrong with them. host (n), facts (n). SL_ENOMEM.
int sl_facts_compare(const char *const *host, const struct sl_facts *facts, uint32_t n,
                     struct sl_node_notes *notes);

#endif
