/* Words for enum values, as sentences and labels have them. */
#ifndef LX_RUNTIME_NAMES_H
#define LX_RUNTIME_NAMES_H

/* "PureRead" and so on. */
const char *lx_lane_word(unsigned lane);

#endif
