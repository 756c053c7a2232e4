/* bench-instructions: run under callgrind by ./dev bench --instructions. */
#include "lab.h"

int main(void)
{
    lab_open();
    lab_jobs();
    lab_calls();
    lab_lookups();
    lab_close();
    return 0;
}
