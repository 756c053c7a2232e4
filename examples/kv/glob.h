/* Key patterns as KEYS and SCAN know them: * ? [abc] [^a] [a-z] and \ before a special one. */
#ifndef KV_GLOB_H
#define KV_GLOB_H

#include <stdbool.h>
#include <stddef.h>

/* Cost: at most the product of both lengths, whatever the pattern. */
bool kv_glob_match(const char *pattern, size_t pattern_length, const char *text,
                   size_t text_length);

#endif
