/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What is counted of the drained records, and how it is shown. */
#include "stat/query_top.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "stat/query_text.h"

enum kind { NAMES, CLIENTS, BLOCKED, KINDS };

struct window {
	uint64_t queries;
	struct sketch *of[KINDS];
};

struct query_top {
	uint64_t started_ms, window_ms; /* when the first window of all, and the current one, began */
	unsigned current;
	struct window window[QUERY_TOP_WINDOWS], before; /* before: of every window that ended */
};

static int make_window(struct window *w)
{
	for (unsigned k = 0; k < KINDS; k++)
		if (!(w->of[k] = sketch_new(QUERY_TOP_COUNTERS)))
			return -ENOMEM;
	return 0;
}

static void free_window(struct window *w)
{
	for (unsigned k = 0; k < KINDS; k++)
		sketch_free(w->of[k]);
}

static void merge_window(struct window *to, const struct window *from)
{
	to->queries += from->queries;
	for (unsigned k = 0; k < KINDS; k++)
		sketch_merge(to->of[k], from->of[k]);
}

static void clear_window(struct window *w)
{
	w->queries = 0;
	for (unsigned k = 0; k < KINDS; k++)
		sketch_clear(w->of[k]);
}

struct query_top *query_top_new(uint64_t now_ms)
{
	struct query_top *t = calloc(1, sizeof *t);
	int r = t ? make_window(&t->before) : -ENOMEM;
	for (unsigned i = 0; r == 0 && i < QUERY_TOP_WINDOWS; i++)
		r = make_window(&t->window[i]);
	if (r < 0) {
		query_top_free(t);
		return NULL;
	}
	t->started_ms = t->window_ms = now_ms;
	return t;
}

void query_top_free(struct query_top *t)
{
	if (!t)
		return;
	for (unsigned i = 0; i < QUERY_TOP_WINDOWS; i++)
		free_window(&t->window[i]);
	free_window(&t->before);
	free(t);
}

void query_top_turn(struct query_top *t, uint64_t now_ms)
{
	for (unsigned i = 0; now_ms - t->window_ms >= QUERY_TOP_WINDOW_MS; i++) {
		merge_window(&t->before, &t->window[t->current]);
		/* After a long sleep of the machine every window is empty once. */
		t->current = (t->current + 1) % QUERY_TOP_WINDOWS;
		clear_window(&t->window[t->current]);
		t->window_ms = i < QUERY_TOP_WINDOWS ? t->window_ms + QUERY_TOP_WINDOW_MS : now_ms;
	}
}

void query_top_add(struct query_top *t, const struct query_seen *q)
{
	struct window *w = &t->window[t->current];
	uint8_t client[17] = { q->client.family };
	w->queries += q->weight;
	sketch_add(w->of[NAMES], q->name, q->name_len, q->weight, 0);
	memcpy(client + 1, q->client.b, 16);
	sketch_add(w->of[CLIENTS], client, sizeof client, q->weight, 0);
	if (q->outcome == OUTCOME_BLOCKED)
		sketch_add(w->of[BLOCKED], q->name, q->name_len, q->weight, 0);
}

/* --- showing --- */

static void show_key(enum kind kind, const struct sketch_entry *e, struct buf *out)
{
	char text[NAME_TEXT_MAX];
	struct addr a = { .family = e->key[0] };
	if (kind == CLIENTS) {
		memcpy(a.b, e->key + 1, 16);
		buf_printf(out, "{\"client\":\"%s\"", a.family ? addr_print(text, &a) : "");
		return;
	}
	name_to_text(text, e->key);
	buf_printf(out, "{\"name\":");
	json_text_print(text, strlen(text), out);
}

static void show_window(const struct window *w, unsigned count, struct sketch_entry *room, struct buf *out)
{
	static const char *const titles[KINDS] = { "names", "clients", "blocked" };
	buf_printf(out, "{\"queries\":%llu", (unsigned long long)w->queries);
	for (unsigned k = 0; k < KINDS; k++) {
		unsigned n = sketch_largest(w->of[k], room, count);
		buf_printf(out, ",\"%s\":[", titles[k]);
		for (unsigned i = 0; i < n; i++) {
			buf_printf(out, i ? "," : "");
			show_key((enum kind)k, &room[i], out);
			buf_printf(out, ",\"count\":%llu,\"at_least\":%llu}", (unsigned long long)room[i].count, (unsigned long long)(room[i].count - room[i].error));
		}
		buf_printf(out, "]");
	}
	buf_printf(out, "}");
}

int query_top_show(struct query_top *t, uint64_t now_ms, unsigned count, struct buf *out)
{
	struct window hour = { 0 };
	struct sketch_entry *room = NULL;
	query_top_turn(t, now_ms);
	count = count > QUERY_TOP_SHOWN_MAX ? QUERY_TOP_SHOWN_MAX : count;
	int r = make_window(&hour);
	if (r == 0 && !(room = calloc(count + 1, sizeof *room)))
		r = -ENOMEM;
	if (r == 0) {
		for (unsigned i = 0; i < QUERY_TOP_WINDOWS; i++)
			merge_window(&hour, &t->window[i]);
		buf_printf(out, "{\"hour\":");
		show_window(&hour, count, room, out);
		/* Since the start: what ended, and the window that runs. */
		clear_window(&hour);
		merge_window(&hour, &t->before);
		merge_window(&hour, &t->window[t->current]);
		buf_printf(out, ",\"start\":");
		show_window(&hour, count, room, out);
		buf_printf(out, ",\"since_s\":%llu}", (unsigned long long)(now_ms - t->started_ms) / 1000);
		r = out->failed;
	}
	free(room);
	free_window(&hour);
	return r;
}
