/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A key that the table carries is converted: nonsense as its value is refused by name. So nobody can add a key to the table alone, to be accepted and
 * ignored. Keys that take any text are listed here; what they do has tests of its own. */
#include "fixture.h"
#include "config/schema.h"

static const char *const any_text[] = { "include", "server.state", "server.control", "server.user", "lists.*.files", "lists.*.entries", "filter[].name", "steer[].name", "upstreams.*.resolv-conf", "local.hosts",
	/* A label may hold any byte. */
	"local.domain", "upstreams.*.domains", "local.rebind-protection.allow", "filter[].cname" };

static bool takes_any_text(const char *path)
{
	for (size_t i = 0; i < sizeof any_text / sizeof *any_text; i++)
		if (!strcmp(any_text[i], path))
			return true;
	return false;
}

static void prepend(char *tail, const char *what)
{
	memmove(tail + strlen(what), tail, strlen(tail) + 1);
	memcpy(tail, what, strlen(what));
}

/* `a.*.b[].c` with a value becomes nested flow style. */
static void write_yaml(char *ret, size_t max, const char *path, const char *value)
{
	char tail[64] = "";
	size_t at = 0;
	while (*path) {
		size_t len = strcspn(path, ".[");
		bool is_rules = path[len] == '[';
		at += (size_t)snprintf(ret + at, max - at, "%s%.*s: %s", at ? "{ " : "", (int)len, path[0] == '*' ? "n" : path, is_rules ? "[ " : "");
		path += len + (is_rules ? 2 : 0);
		path += *path == '.';
		if (is_rules)
			prepend(tail, " ]");
		if (*path)
			prepend(tail, " }");
	}
	snprintf(ret + at, max - at, "%s%s\n", value, tail);
}

static void nonsense_is_refused_by_every_key(void **state)
{
	(void)state;
	unsigned tried = 0;
	for (unsigned i = 0; i < schema_key_count; i++) {
		const struct schema_key *k = &schema_keys[i];
		bool is_leaf = k->shape == SHAPE_VALUE || k->shape == SHAPE_VALUES || k->shape == SHAPE_VALUES_OR_NONE;
		if (!k->is_carried || !is_leaf || takes_any_text(k->path))
			continue;
		char text[512];
		write_yaml(text, sizeof text, k->path, "\"%~!\"");
		/* Some keys of a way mean something beside an interface only. */
		if (!strncmp(text, "ways: { n: { ", 13) && strncmp(text + 13, "interface", 9)) {
			char rest[512];
			snprintf(rest, sizeof rest, "%s", text + 13);
			snprintf(text, sizeof text, "ways: { n: { interface: w0, %s", rest);
		}
		struct parsed p = parse(text);
		if (!p.r.errors || !strstr(p.r.text.bytes, "%~!"))
			fail_msg("`%s` takes nonsense: is it converted?\n%s\nsaid: %s", k->path, text, p.r.text.bytes ? p.r.text.bytes : "nothing");
		config_free(p.c);
		report_free(&p.r);
		tried++;
	}
	assert_true(tried > 40);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(nonsense_is_refused_by_every_key) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
