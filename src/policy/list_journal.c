/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The compiled image and its journal. See list_journal.h. */
#include "policy/list_journal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/hash.h"
#include "policy/list_state.h"

#define TAG_MAGIC "nwimage1"
#define JOURNAL_BYTES_MAX ((size_t)256 << 20)
#define IMAGE_NAME "compiled.idx"

struct image_tag {
	char magic[8];
	uint64_t id, version;
	uint8_t zero[40];
};
struct record_head {
	uint32_t len, zero;
	uint64_t hash;
};
struct update_head {
	uint32_t slot, zero;
	uint64_t before, after;
};
enum { OP_REMOVE = 0x80 };

void list_journal_init(struct list_journal *j)
{
	*j = (struct list_journal){.fd = -1};
}

static void forget_slots(struct list_journal *j)
{
	for (unsigned i = 0; i < CONFIG_LISTS_MAX; i++) {
		free(j->slots[i].name);
		j->slots[i] = (struct list_journal_slot){0};
	}
}

void list_journal_free(struct list_journal *j)
{
	forget_slots(j);
	if (j->fd >= 0)
		close(j->fd);
	j->fd = -1;
}

static void journal_name(char ret[32], uint64_t id)
{
	snprintf(ret, 32, "journal.%016llx", (unsigned long long)id);
}

void list_op_put(struct buf *ops, const struct name *n, unsigned kind, bool is_remove)
{
	uint8_t head[2] = {(uint8_t)(kind | (is_remove ? OP_REMOVE : 0)), n->len};

	buf_add(ops, head, sizeof(head));
	buf_add(ops, n->wire, n->len);
}

/* A record of the journal is `parts` one behind another, hashed with the journal's id so that a record of another journal is none
 * of this one. */
static int append(int fd, uint64_t id, const struct buf *payload)
{
	struct record_head h = {.len = (uint32_t)payload->len, .hash = hash_bytes(payload->bytes, payload->len, id)};
	int r = list_state_step("journal-head");

	if (r == 0)
		r = state_write(fd, &h, sizeof(h));
	if (r == 0)
		r = list_state_step("journal-body");
	if (r == 0)
		r = state_write(fd, payload->bytes, payload->len);
	if (r == 0)
		r = list_state_step("journal-fsync");
	if (r == 0 && fdatasync(fd) < 0)
		r = -errno;
	return r;
}

int list_journal_append(struct list_journal *j, unsigned slot, uint64_t before, uint64_t after, const struct buf *ops)
{
	struct list_journal_slot *s = &j->slots[slot];
	struct update_head h = {.slot = slot, .before = before, .after = after};
	struct buf payload;
	int r;

	if (j->fd < 0 || !s->is_recorded || s->content != before)
		return -ENOENT;
	buf_init(&payload, JOURNAL_BYTES_MAX);
	buf_add(&payload, &h, sizeof(h));
	buf_add(&payload, ops->bytes, ops->len);
	r = payload.failed;
	if (r == 0)
		r = append(j->fd, j->id, &payload);
	if (r == 0) {
		j->end += sizeof(struct record_head) + payload.len;
		s->content = after;
	} else {
		s->is_recorded = false;
		/* A torn record would hide those behind it. */
		if (ftruncate(j->fd, (off_t)j->end) < 0 || lseek(j->fd, (off_t)j->end, SEEK_SET) < 0) {
			close(j->fd);
			j->fd = -1;
		}
	}
	buf_free(&payload);
	return r;
}

static void put_table(struct buf *b, const struct list_journal_slot *slots)
{
	for (uint32_t i = 0; i < CONFIG_LISTS_MAX; i++) {
		uint32_t head[2] = {i, slots[i].name ? (uint32_t)strlen(slots[i].name) : 0};

		if (!slots[i].is_recorded)
			continue;
		buf_add(b, head, sizeof(head));
		buf_add(b, &slots[i].def, sizeof(uint64_t));
		buf_add(b, &slots[i].content, sizeof(uint64_t));
		buf_add(b, slots[i].name, head[1]);
	}
	/* So that the table of an empty index is a record too. */
	buf_add(b, &(uint32_t[2]){UINT32_MAX, 0}, 8);
}

static int read_table(struct list_journal *j, const char *p, size_t len)
{
	const char *end = p + len;
	uint32_t head[2];

	for (;;) {
		if ((size_t)(end - p) < sizeof(head))
			return NW_EMALFORMED;
		memcpy(head, p, sizeof(head));
		p += sizeof(head);
		if (head[0] == UINT32_MAX)
			return p == end ? 0 : NW_EMALFORMED;
		if (head[0] >= CONFIG_LISTS_MAX || (size_t)(end - p) < 16 || head[1] > (size_t)(end - p) - 16 ||
		        j->slots[head[0]].name)
			return NW_EMALFORMED;
		memcpy(&j->slots[head[0]].def, p, 8);
		memcpy(&j->slots[head[0]].content, p + 8, 8);
		j->slots[head[0]].name = strndup(p + 16, head[1]);
		if (!j->slots[head[0]].name)
			return -ENOMEM;
		j->slots[head[0]].is_recorded = true;
		p += 16 + head[1];
	}
}

/* Applies the changes of one record to the index, in an update of their own. */
static int replay_ops(struct index *ix, unsigned slot, const uint8_t *p, const uint8_t *end)
{
	struct name n;
	int r = 0;

	for (; r == 0 && p < end; p += 2 + n.len) {
		if (end - p < 2 || end - p < 2 + p[1] || name_from_wire(&n, p + 2, p[1]) != p[1])
			return NW_EMALFORMED;
		if (p[0] & OP_REMOVE)
			r = index_remove(ix, slot, &n, p[0] & 63);
		else
			r = p[0] & 63 ? index_add(ix, slot, &n, p[0] & 63) : NW_EMALFORMED;
	}
	return r;
}

static int replay_in(struct index *ix, unsigned slot, const uint8_t *p, const uint8_t *end)
{
	int r;

	index_begin(ix);
	r = replay_ops(ix, slot, p, end);
	if (r < 0) {
		index_abort(ix);
		return r;
	}
	index_publish(ix);
	index_settle(ix);
	return 0;
}

/* One update. A record that does not continue what is known of its list makes the list unknown, so that it is built from its
 * text. */
static int replay(struct list_journal *j, struct index **ix, const uint8_t *p, size_t len)
{
	struct list_journal_slot *s;
	struct update_head h;
	struct index_stat st;
	struct index *larger;
	int r;

	if (len < sizeof(h))
		return NW_EMALFORMED;
	memcpy(&h, p, sizeof(h));
	if (h.slot >= CONFIG_LISTS_MAX)
		return NW_EMALFORMED;
	s = &j->slots[h.slot];
	if (!s->is_recorded || s->content != h.before) {
		s->is_recorded = false;
		return 0;
	}
	r = replay_in(*ix, h.slot, p + sizeof(h), p + len);
	if (r == NW_EFULL) {
		index_stat(*ix, &st);
		larger = index_rebuild(*ix, st.names + st.names / 2 + len / 8);
		if (!larger)
			return -ENOMEM;
		index_free(*ix);
		*ix = larger;
		r = replay_in(*ix, h.slot, p + sizeof(h), p + len);
	}
	if (r == -ENOMEM)
		return r;
	s->is_recorded = r == 0;
	s->content = h.after;
	return 0;
}

/* Reads the whole journal; j->end is behind the last good record, what follows it is cut off. */
static int replay_all(struct list_journal *j, struct index **ix)
{
	struct record_head h;
	struct buf b;
	int r;

	buf_init(&b, JOURNAL_BYTES_MAX);
	r = buf_read_fd(&b, j->fd);
	j->end = 0;
	while (r == 0 && b.len - j->end >= sizeof(h)) {
		const char *payload = b.bytes + j->end + sizeof(h);

		memcpy(&h, b.bytes + j->end, sizeof(h));
		if (h.len > b.len - j->end - sizeof(h) || hash_bytes(payload, h.len, j->id) != h.hash)
			break;
		r = j->end == 0 ? read_table(j, payload, h.len) : replay(j, ix, (const uint8_t *)payload, h.len);
		j->end += sizeof(h) + h.len;
	}
	if (r == 0 && j->end == 0)
		r = NW_EMALFORMED;
	if (r == 0 && (ftruncate(j->fd, (off_t)j->end) < 0 || lseek(j->fd, (off_t)j->end, SEEK_SET) < 0)) {
		/* Readable but not writable: what it says is right all the same. */
		close(j->fd);
		j->fd = -1;
	}
	buf_free(&b);
	return r;
}

/* Journals that belong to no image: left by a crash between two steps. */
static void remove_strays(int state, const char *keep)
{
	int fd = openat(state, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (!d) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((e = readdir(d)))
		if (strncmp(e->d_name, "journal.", 8) == 0 && strcmp(e->d_name, keep) != 0)
			unlinkat(state, e->d_name, 0);
	closedir(d);
}

static int open_journal(struct list_journal *j, int state, const char *name)
{
	j->fd = openat(state, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (j->fd < 0 && (errno == EROFS || errno == EACCES))
		j->fd = openat(state, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	return j->fd < 0 ? -errno : 0;
}

int list_journal_restore(struct list_journal *j, int state, struct index **ret_index)
{
	struct index *ix = NULL;
	struct image_tag tag;
	char name[32];
	int fd = openat(state, IMAGE_NAME, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW), r;

	r = fd < 0 ? -errno : index_map(&ix, fd, (uint8_t *)&tag);
	if (fd >= 0)
		close(fd);
	if (r == 0 && (memcmp(tag.magic, TAG_MAGIC, sizeof(tag.magic)) || tag.version != state_version()))
		r = NW_EMALFORMED;
	if (r == 0) {
		j->id = tag.id;
		journal_name(name, j->id);
		r = open_journal(j, state, name);
	}
	if (r == 0)
		r = replay_all(j, &ix);
	if (r < 0) {
		index_free(ix);
		list_journal_free(j);
		return r;
	}
	remove_strays(state, name);
	*ret_index = ix;
	return 0;
}

/* A new journal with its table. Returns its descriptor. */
static int new_journal(int state, const char *name, uint64_t id, const struct buf *table)
{
	int fd, r = list_state_step("journal-open");

	if (r < 0)
		return r;
	fd = openat(state, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	r = append(fd, id, table);
	if (r < 0) {
		close(fd);
		unlinkat(state, name, 0);
		return r;
	}
	return fd;
}

static int write_image_file(int state, const struct index *ix, const struct image_tag *tag)
{
	int fd, r = list_state_step("image-open");

	if (r < 0)
		return r;
	fd = openat(state, IMAGE_NAME ".new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	r = list_state_step("image-write");
	if (r == 0)
		r = index_write(ix, fd, (const uint8_t *)tag);
	if (r == 0)
		r = list_state_step("image-fsync");
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	close(fd);
	if (r == 0)
		r = list_state_step("image-rename");
	if (r == 0 && renameat(state, IMAGE_NAME ".new", state, IMAGE_NAME) < 0)
		r = -errno;
	if (r < 0)
		unlinkat(state, IMAGE_NAME ".new", 0);
	return r;
}

static int copy_slots(struct list_journal_slot *ret, const struct list_journal_slot *slots)
{
	for (unsigned i = 0; i < CONFIG_LISTS_MAX; i++) {
		ret[i] = slots[i];
		ret[i].name = slots[i].is_recorded ? strdup(slots[i].name) : NULL;
		if (slots[i].is_recorded && !ret[i].name)
			return -ENOMEM;
	}
	return 0;
}

int list_journal_write_image(struct list_journal *j, int state, const struct index *ix, const struct list_journal_slot *slots)
{
	struct list_journal new = {.fd = -1, .id = hash_seed()};
	struct image_tag tag = {.magic = TAG_MAGIC, .id = new.id, .version = state_version()};
	char name[32];
	struct buf table;
	int r;

	journal_name(name, new.id);
	buf_init(&table, JOURNAL_BYTES_MAX);
	put_table(&table, slots);
	r = table.failed ? table.failed : copy_slots(new.slots, slots);
	if (r == 0)
		r = new.fd = new_journal(state, name, new.id, &table);
	if (r >= 0) {
		new.end = sizeof(struct record_head) + table.len;
		r = write_image_file(state, ix, &tag);
		if (r < 0)
			unlinkat(state, name, 0);
	}
	buf_free(&table);
	if (r < 0) {
		list_journal_free(&new);
		return r;
	}
	list_journal_free(j);
	*j = new;
	remove_strays(state, name);
	return fsync(state) < 0 ? -errno : 0;
}
