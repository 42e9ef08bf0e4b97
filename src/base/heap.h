/* SPDX-License-Identifier: GPL-3.0-or-later */
/* How the process's malloc keeps memory. */
#pragma once

/* Large blocks are mapped each on its own and go back to the system when they are freed, however large ones before them were: malloc itself
 * raises that limit with every large block it frees, and keeps twice as much at the end of each arena. Before the first thread. */
void heap_give_back(void);
