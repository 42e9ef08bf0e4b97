/* SPDX-License-Identifier: GPL-3.0-or-later */
/* dnsmasq's configuration, imported: whatever the lines are, each is carried over, named or empty, and what is printed is a configuration that namewayd
 * takes. Inputs that name other files are left alone: they would read what lies on this machine. */
#include <jansson.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "cli/cli.h"
#include "cli/import.h"
#include "fuzz.h"

enum { INPUT_MAX = 16384 };

static long number(const json_t *j, const char *key)
{
	return (long)json_integer_value(json_object_get(j, key));
}

static void check_answer(const char *text, size_t len, int code)
{
	json_t *j = json_loadb(text, len, 0, NULL);

	CHECK(j);
	CHECK(number(j, "carried") + number(j, "empty") + (long)json_array_size(json_object_get(j, "left")) == number(j, "lines"));
	CHECK(code == 0 && json_is_true(json_object_get(j, "is_valid")));
	json_decref(j);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	char path[64], said[4096], verb[] = "import", what[] = "dnsmasq", *argv[] = {verb, what, path, NULL}, *out = NULL;
	size_t out_len = 0;
	int fd, code;
	struct cli c = {.wants_json = true};

	if (len > INPUT_MAX || memmem(bytes, len, "conf-", 5) || memmem(bytes, len, "servers-file", 12))
		return 0;
	fd = memfd_create("dnsmasq.conf", MFD_CLOEXEC);
	CHECK(fd >= 0 && write(fd, bytes, len) == (ssize_t)len && lseek(fd, 0, SEEK_SET) == 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	c.out = open_memstream(&out, &out_len);
	c.err = fmemopen(said, sizeof(said), "w");
	CHECK(c.out && c.err);
	code = cli_import(&c, 3, argv);
	fclose(c.out);
	fclose(c.err);
	if (code)
		fprintf(stderr, "%.*s\n%.4000s\n", (int)out_len, out, said);
	check_answer(out, out_len, code);
	free(out);
	close(fd);
	return 0;
}
