#include "glob.h"

/*
 * Matches one character against the set at pattern[*at], which is behind its '['. Moves *at behind
 * the set; a set that is not closed ends with the pattern.
 */
static bool match_set(const char *pattern, size_t length, size_t *at, unsigned char c)
{
    bool negated = *at < length && pattern[*at] == '^';
    bool found = false;
    if (negated)
        (*at)++;
    while (*at < length && pattern[*at] != ']') {
        if (pattern[*at] == '\\' && *at + 1 < length)
            (*at)++;
        unsigned char low = (unsigned char)pattern[(*at)++];
        unsigned char high = low;
        if (*at + 1 < length && pattern[*at] == '-' && pattern[*at + 1] != ']') {
            high = (unsigned char)pattern[*at + 1];
            *at += 2;
        }
        if (low > high) {
            unsigned char swap = low;
            low = high;
            high = swap;
        }
        found |= c >= low && c <= high;
    }
    if (*at < length)
        (*at)++;
    return found != negated;
}

/* Matches one character that is not '*' at pattern[*at], and moves *at behind what it used. */
static bool match_one(const char *pattern, size_t length, size_t *at, char c)
{
    char want = pattern[(*at)++];
    if (want == '?')
        return true;
    if (want == '[')
        return match_set(pattern, length, at, (unsigned char)c);
    if (want == '\\' && *at < length)
        want = pattern[(*at)++];
    return want == c;
}

/*
 * Only the last star is ever gone back to: what an earlier one could take, the last can take too.
 * Hence no pattern costs exponential time.
 */
bool kv_glob_match(const char *pattern, size_t pattern_length, const char *text, size_t text_length)
{
    size_t p = 0, t = 0;
    size_t star_p = 0, star_t = 0;
    bool star = false;
    while (t < text_length) {
        if (p < pattern_length && pattern[p] == '*') {
            star = true;
            star_p = ++p;
            star_t = t;
            continue;
        }
        if (p < pattern_length && match_one(pattern, pattern_length, &p, text[t])) {
            t++;
            continue;
        }
        if (!star)
            return false;
        p = star_p;
        t = ++star_t;
    }
    while (p < pattern_length && pattern[p] == '*')
        p++;
    return p == pattern_length;
}
