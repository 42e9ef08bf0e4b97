/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Pauses of filter rules (`filter off`): which rules are passed over, and until when. A pause belongs to a rule's name and outlives changes of the
 * configuration; of a rule without a name it belongs to what the rule says. Workers read the page, by the rule numbers of the configuration in force.
 * Times are seconds of the workers' clock (clock_ms / 1000). They end by themselves, and with the process. Any thread; one mutex, never met by a worker. */
#pragma once
#include "policy/policy.h"

enum { PAUSE_MIN_S = 1, PAUSE_MAX_S = 7 * 86400, PAUSE_ALL = -1 };

struct pauses;
struct pauses *pauses_new(void); /* NULL: out of memory */
void pauses_free(struct pauses *p);
struct filter_pause *pauses_page(struct pauses *p);

/* Around the moment at which workers take another configuration over. Before: rules that will have another number are no longer paused, so that no rule
 * is passed over in another's place. After: by the new numbers. */
void pauses_before_switch(struct pauses *p, const struct config *next);
void pauses_after_switch(struct pauses *p, const struct config *now);

/* rule: of c, or PAUSE_ALL. until_s in the past ends the pause. NW_EFULL: as many are paused as there may be rules. */
int pauses_set(struct pauses *p, const struct config *c, int rule, uint32_t until_s, uint32_t now_s);
void pauses_end_all(struct pauses *p); /* every rule's and the one of all */
uint32_t pauses_left(struct pauses *p, const struct config *c, int rule, uint32_t now_s); /* seconds; 0: not paused. A rule's own, without PAUSE_ALL's */
