/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What reaches standard error: levels, one line a message, the journal's prefix, the limit for repeats. Each case runs on a
 * pipe. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/log.h"

static int saved, fds[2];
static char text[65536];

static void capture_begin(void)
{
	saved = dup(STDERR_FILENO);
	assert_int_equal(pipe2(fds, O_NONBLOCK), 0);
	dup2(fds[1], STDERR_FILENO);
}

static const char *capture_end(void)
{
	ssize_t n = read(fds[0], text, sizeof(text) - 1);

	dup2(saved, STDERR_FILENO);
	close(saved);
	close(fds[0]);
	close(fds[1]);
	text[n > 0 ? n : 0] = '\0';
	return text;
}

static unsigned lines(const char *s)
{
	unsigned n = 0;

	for (; *s; s++)
		n += *s == '\n';
	return n;
}

static void levels_are_kept(void **state)
{
	unsetenv("JOURNAL_STREAM");
	log_init("server", LOG_L_WARN);
	capture_begin();
	log_info("not said");
	log_warn("said %d", 1);
	log_set_level(LOG_L_DEBUG);
	log_debug("said too");
	assert_string_equal(capture_end(), "WARN: server: said 1\nDEBUG: server: said too\n");
}

static void a_message_is_one_line(void **state)
{
	char long_text[3000];

	log_init("server", LOG_L_INFO);
	memset(long_text, 'x', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	capture_begin();
	log_info("name a\nb\x1b[31m");
	log_info("%s", long_text);
	capture_end();
	assert_int_equal(lines(text), 2);
	assert_non_null(strstr(text, "INFO: server: name a?b?[31m\n"));
}

static void the_journal_gets_its_prefix(void **state)
{
	setenv("JOURNAL_STREAM", "8:1", 1);
	log_init("parent", LOG_L_INFO);
	capture_begin();
	log_error("for the journal");
	assert_string_equal(capture_end(), "<3>ERROR: parent: for the journal\n");
	unsetenv("JOURNAL_STREAM");
	log_init("parent", LOG_L_INFO);
}

static void repeats_are_limited_and_summed_up(void **state)
{
	capture_begin();
	for (unsigned i = 0; i < 50; i++)
		log_info("again");
	/* Enough other messages to need the slot of the first. */
	for (unsigned i = 0; i < 40; i++)
		log_info("other %u", i);
	capture_end();
	assert_int_equal(lines(text), 5 + 1 + 40);
	assert_non_null(strstr(text, "INFO: parent: 45 more like it: again\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(levels_are_kept),
		cmocka_unit_test(a_message_is_one_line),
		cmocka_unit_test(the_journal_gets_its_prefix),
		cmocka_unit_test(repeats_are_limited_and_summed_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
