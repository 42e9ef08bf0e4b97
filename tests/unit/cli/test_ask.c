/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The control socket, against a server of one connection in a child process. */
#include "shown.h"
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static char directory[] = "/tmp/nameway-test-XXXXXX", path[64];

static int set_up(void **ctx)
{
	(void)ctx;
	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/control.sock", directory);
	return 0;
}

static int tear_down(void **ctx)
{
	(void)ctx;
	return rmdir(directory);
}

/* Accepts once, reads a line, sends the bytes and closes. The child exits with 0 when it got one whole line. */
static pid_t serve(const char *bytes, size_t len)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(fd, 1), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		int c = accept(fd, NULL, NULL);
		char last = 0;
		while (last != '\n' && read(c, &last, 1) == 1)
			;
		for (size_t at = 0; at < len;) {
			ssize_t n = send(c, bytes + at, len - at, MSG_NOSIGNAL);
			if (n < 0)
				break;
			at += (size_t)n;
		}
		_exit(last == '\n' ? 0 : 1);
	}
	close(fd);
	return pid;
}

static struct shown ask(const char *answer)
{
	char words[128];
	int status;
	pid_t pid = serve(answer, strlen(answer));
	snprintf(words, sizeof(words), "-s %s --json cache stats", path);
	struct shown s = show(NULL, NULL, words);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	unlink(path);
	return s;
}

static void yes_and_no(void **ctx)
{
	(void)ctx;
	struct shown s = ask("{\"ok\":true,\"result\":{\"entries\":1}}\n");
	assert_int_equal(s.code, 0);
	assert_string_equal(s.out, "{\n  \"entries\": 1\n}\n");
	shown_free(&s);
	s = ask("{\"ok\":false,\"error\":\"there is no such thing\"}\n");
	assert_int_equal(s.code, EXIT_NO);
	assert_string_equal(s.err, "nameway: there is no such thing\n");
	shown_free(&s);
}

static void odd_answers(void **ctx)
{
	static const char *const odd[] = {"", "\n", "hello\n", "{\"ok\":true", "[]\n", "{\"ok\":\"yes\"}\n"};
	(void)ctx;
	for (unsigned i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		struct shown s = ask(odd[i]);
		assert_int_equal(s.code, EXIT_NO);
		assert_true(s.err_len > 0);
		assert_int_equal(s.out_len, 0);
		shown_free(&s);
	}
}

static void a_long_answer(void **ctx)
{
	(void)ctx;
	size_t len = 3 << 20;
	static const char begin[] = "{\"ok\":true,\"result\":\"", end[] = "\"}\n";
	char *text = calloc(1, sizeof(begin) + len + sizeof(end));
	assert_non_null(text);
	memcpy(text, begin, sizeof(begin) - 1);
	for (size_t i = 0; i < len; i++)
		text[sizeof(begin) - 1 + i] = 'x';
	strcat(text, end);
	struct shown s = ask(text);
	assert_int_equal(s.code, 0);
	assert_int_equal(s.out_len, len + 3);
	shown_free(&s);
	free(text);
}

static void nobody_there(void **ctx)
{
	char words[128];
	(void)ctx;
	snprintf(words, sizeof(words), "-s %s status", path);
	struct shown s = show(NULL, NULL, words);
	assert_int_equal(s.code, EXIT_NO);
	assert_has(s.err, "Mend: start it");
	shown_free(&s);
	s = show(NULL, NULL,
	        "-s "
	        "/a/path/that/is/far/too/long/for/a/socket/of/the/family/of/local/sockets/whose/paths/hold/at/most/one/hundred/"
	        "and/eight/bytes status");
	assert_int_equal(s.code, EXIT_NO);
	shown_free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(yes_and_no),
	        cmocka_unit_test(odd_answers),
	        cmocka_unit_test(a_long_answer),
	        cmocka_unit_test(nobody_there),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
