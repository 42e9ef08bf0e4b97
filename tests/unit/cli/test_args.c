/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The command line: which request a line makes, what is refused, and the exit codes. */
#include "shown.h"
#include <unistd.h>

/* The last request, and what is answered. */
struct asked {
	json_t *request;
	const char *answer;
	int code;
	unsigned count;
};
static struct asked last;

static int fake_ask(struct cli *c, json_t *request, json_t **ret)
{
	json_decref(last.request);
	last.request = request;
	last.count++;
	if (last.code) {
		fputs("nameway: no\n", c->err);
		return last.code;
	}
	*ret = json_loads(last.answer, JSON_DECODE_ANY, NULL);
	return 0;
}

static int forget(void **ctx)
{
	(void)ctx;
	json_decref(last.request);
	last = (struct asked){.answer = "{}"};
	return 0;
}

static struct shown run(const char *words)
{
	return show(fake_ask, NULL, words);
}

static void assert_request(const char *words, const char *request)
{
	struct shown s = run(words);
	char *text = json_dumps(last.request, JSON_COMPACT | JSON_SORT_KEYS);
	if (s.code)
		fail_msg("%s: exit code %d: %s", words, s.code, s.err);
	assert_non_null(text);
	assert_string_equal(text, request);
	free(text);
	shown_free(&s);
}

static void assert_usage(const char *words, const char *part)
{
	unsigned before = last.count;
	struct shown s = run(words);
	assert_int_equal(s.code, EXIT_USAGE);
	assert_has(s.err, part);
	assert_int_equal(last.count, before);
	shown_free(&s);
}

static void lines_make_requests(void **ctx)
{
	(void)ctx;
	assert_request("status", "{\"verb\":\"status\"}");
	assert_request("--json status", "{\"verb\":\"status\"}");
	assert_request("-s /x status --json", "{\"verb\":\"status\"}");
	assert_request("explain a.example", "{\"name\":\"a.example\",\"verb\":\"explain\"}");
	assert_request("explain a.example aaaa", "{\"name\":\"a.example\",\"type\":\"aaaa\",\"verb\":\"explain\"}");
	assert_request("explain --client no-such-if a.example",
	        "{\"client\":\"no-such-if\",\"name\":\"a.example\",\"verb\":\"explain\"}");
	assert_request("explain a.example --client=no-such-if",
	        "{\"client\":\"no-such-if\",\"name\":\"a.example\",\"verb\":\"explain\"}");
	assert_request("list", "{\"verb\":\"list\"}");
	assert_request("list ads", "{\"name\":\"ads\",\"verb\":\"list\"}");
	assert_request("list reload ads", "{\"accept\":false,\"name\":\"ads\",\"verb\":\"list-reload\"}");
	assert_request("list reload ads --accept", "{\"accept\":true,\"name\":\"ads\",\"verb\":\"list-reload\"}");
	assert_request("list add ads a.example =b.example",
	        "{\"entries\":[\"a.example\",\"=b.example\"],\"name\":\"ads\",\"verb\":\"list-add\"}");
	assert_request("list remove ads a.example", "{\"entries\":[\"a.example\"],\"name\":\"ads\",\"verb\":\"list-remove\"}");
	assert_request("rules", "{\"verb\":\"rules\"}");
	assert_request("ways", "{\"verb\":\"ways\"}");
	assert_request("way down wg1", "{\"name\":\"wg1\",\"up\":false,\"verb\":\"way\"}");
	assert_request("way up wg1", "{\"name\":\"wg1\",\"up\":true,\"verb\":\"way\"}");
	assert_request("cache stats", "{\"verb\":\"cache-stats\"}");
	assert_request("cache flush", "{\"verb\":\"cache-flush\"}");
	assert_request("cache flush a.example", "{\"name\":\"a.example\",\"verb\":\"cache-flush\"}");
	assert_request("cache flush --exact a.example", "{\"exact\":true,\"name\":\"a.example\",\"verb\":\"cache-flush\"}");
	assert_request("cache flush a.example --exact", "{\"exact\":true,\"name\":\"a.example\",\"verb\":\"cache-flush\"}");
	assert_request("filter", "{\"verb\":\"filter\"}");
	assert_request("filter off 30m", "{\"duration_s\":1800,\"verb\":\"filter-off\"}");
	assert_request("filter off 1d2h3m4s ads", "{\"duration_s\":93784,\"rule\":\"ads\",\"verb\":\"filter-off\"}");
	assert_request("filter on", "{\"verb\":\"filter-on\"}");
	assert_request("filter on 2", "{\"rule\":\"2\",\"verb\":\"filter-on\"}");
	assert_request("log", "{\"verb\":\"log\"}");
	assert_request("log -n 5 --name ads --client 192.0.2.1 --blocked",
	        "{\"client\":\"192.0.2.1\",\"count\":5,\"name\":\"ads\",\"outcome\":\"blocked\",\"verb\":\"log\"}");
	assert_request("top", "{\"verb\":\"top\"}");
	assert_request("top 30", "{\"count\":30,\"verb\":\"top\"}");
	assert_request("reload", "{\"verb\":\"reload\"}");
}

static void wrong_lines_ask_nothing(void **ctx)
{
	(void)ctx;
	assert_usage("", "nameway [-s SOCKET");
	assert_usage("stats", "there is no verb `stats`");
	assert_usage("--jason status", "no option `--jason`");
	assert_usage("-s", "needs a value");
	assert_usage("-s a -c b status", "one of -s and -c");
	assert_usage("status now", "takes no `now`");
	assert_usage("explain", "explain NAME|ADDRESS");
	assert_usage("explain --wat x", "no option `--wat`");
	assert_usage("explain a A b", "one name or address");
	assert_usage("list reload", "list reload NAME");
	assert_usage("list reload a b", "list reload NAME");
	assert_usage("list add ads", "list add LIST NAME");
	assert_usage("list diff ads", "list diff NAME FILE");
	assert_usage("list diff ads /nonexistent/file", "/nonexistent/file");
	assert_usage("list ads more", "see nameway list --help");
	assert_usage("way left wg1", "way up|down NAME");
	assert_usage("way up", "way up|down NAME");
	assert_usage("test tunnel1", "test way NAME");
	assert_usage("cache", "cache stats | cache flush");
	assert_usage("cache flush a b", "cache stats | cache flush");
	assert_usage("cache flush --exact", "cache stats | cache flush");
	assert_usage("cache flush --wat a", "cache stats | cache flush");
	assert_usage("filter pause", "filter off DURATION");
	assert_usage("filter off", "filter off DURATION");
	assert_usage("filter off 30", "no duration");
	assert_usage("filter off -5m", "no duration");
	assert_usage("filter off 5m ads more", "filter off DURATION");
	assert_usage("filter on ads more", "filter off DURATION");
	assert_usage("log x", "no option `x`");
	assert_usage("log -n", "`-n` needs a value");
	assert_usage("log -n x", "is no number");
	assert_usage("log -n 10001", "up to 10000");
	assert_usage("top x", "is no number");
	assert_usage("top --watch --json", "--watch is for people");
	assert_usage("check", "check FILE");
}

static void later_verbs_are_refused_by_name(void **ctx)
{
	static const char *const later[] = {
	        "lease list", "kernel attach", "import iptables-dns f"};
	(void)ctx;
	for (unsigned i = 0; i < sizeof(later) / sizeof(later[0]); i++) {
		assert_usage(later[i], "is not in this version");
		char name[32];
		snprintf(name, sizeof(name), "`%.*s`", (int)strcspn(later[i], " "), later[i]);
		assert_usage(later[i], name);
	}
}

static void every_verb_has_help(void **ctx)
{
	static const char *const verbs[] = {
	        "status", "explain", "list", "rules", "ways", "way", "test", "cache", "filter", "log", "top", "reload", "check"};
	(void)ctx;
	for (unsigned i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		char words[64];
		snprintf(words, sizeof(words), "%s --help", verbs[i]);
		struct shown s = run(words);
		assert_int_equal(s.code, 0);
		assert_has(s.out, verbs[i]);
		assert_null(last.request);
		shown_free(&s);
	}
	struct shown s = run("--help");
	assert_int_equal(s.code, 0);
	for (unsigned i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		assert_has(s.out, verbs[i]);
	assert_null(strstr(s.out, "lease"));
	shown_free(&s);
}

static void answers_and_exit_codes(void **ctx)
{
	(void)ctx;
	last.answer = "{\"flushed\":3}";
	struct shown s = run("cache flush");
	assert_string_equal(s.out, "3 answers taken out\n");
	shown_free(&s);
	s = run("cache flush --json");
	assert_string_equal(s.out, "{\n  \"flushed\": 3\n}\n");
	shown_free(&s);
	last.answer = "\"applied\"";
	s = run("reload");
	assert_string_equal(s.out, "applied\n");
	shown_free(&s);
	s = run("--json reload");
	assert_string_equal(s.out, "\"applied\"\n");
	shown_free(&s);
	last.answer = "{\"name\":\"wg1\",\"ok\":false,\"checks\":[{\"what\":\"state\",\"ok\":false,\"said\":\"down\"}]}";
	s = run("test way wg1");
	assert_int_equal(s.code, EXIT_NO);
	assert_has(s.out, "PROBLEM  state");
	shown_free(&s);
	last.answer = "{\"name\":\"wg1\",\"ok\":true,\"checks\":[]}";
	s = run("test way wg1");
	assert_int_equal(s.code, 0);
	shown_free(&s);
	last.code = EXIT_NO;
	s = run("test way wg1");
	assert_int_equal(s.code, EXIT_NO);
	shown_free(&s);
	s = run("status");
	assert_int_equal(s.code, EXIT_NO);
	shown_free(&s);
}

/* Three answers, then the server is gone. */
static unsigned rounds;
static int fake_follow(struct cli *c, json_t *request, json_t **ret)
{
	(void)c;
	json_decref(last.request);
	last.request = request;
	if (rounds && json_integer_value(json_object_get(request, "cursor")) != (json_int_t)(40 + rounds))
		fail_msg("round %u: another cursor", rounds);
	if (++rounds == 4)
		return EXIT_NO;
	*ret = json_pack("{s:b, s:i, s:[{s:I, s:s, s:s, s:s, s:s, s:s, s:i}]}", "on", 1, "cursor", (int)(40 + rounds), "records", "at_ms",
	        (json_int_t)1790000000007, "client", "192.0.2.1", "name", rounds == 2 ? "two.example" : "other.example", "type", "A", "rcode",
	        "NOERROR", "outcome", "cached", "took_us", 85);
	return 0;
}

static void following_asks_with_the_cursor(void **ctx)
{
	(void)ctx;
	rounds = 0;
	struct shown s = show(fake_follow, NULL, "log --follow --name example");
	assert_int_equal(s.code, EXIT_NO);
	assert_int_equal(rounds, 4);
	assert_has(s.out, "  192.0.2.1        A      two.example  NOERROR cached  0.1 ms\n");
	assert_string_equal(json_string_value(json_object_get(last.request, "name")), "example");
	assert_int_equal(json_integer_value(json_object_get(last.request, "count")), 5000);
	shown_free(&s);
	rounds = 0;
	s = show(fake_follow, NULL, "log --json -f");
	char *line = s.out;
	for (unsigned i = 0; i < 3; i++) {
		json_t *j = json_loads(line, JSON_DISABLE_EOF_CHECK, NULL);
		assert_non_null(j);
		json_decref(j);
		line = strchr(line, '\n') + 1;
	}
	assert_string_equal(line, "");
	shown_free(&s);
}

static void a_log_that_is_off_is_said(void **ctx)
{
	(void)ctx;
	last.answer = "{\"on\":false,\"records\":[],\"cursor\":1}";
	struct shown s = run("log");
	assert_int_equal(s.code, 0);
	assert_string_equal(s.out, "");
	assert_has(s.err, "server.log.queries: true");
	shown_free(&s);
}

static void terminal_controls_are_not_passed_on(void **ctx)
{
	(void)ctx;
	last.answer = "{\"list\":\"a\",\"said\":\"x\\u001b[31mred\"}";
	struct shown s = run("list reload a");
	assert_string_equal(s.out, "a: x?[31mred\n");
	shown_free(&s);
}

static char *file_of(const char *text, size_t len)
{
	static char path[] = "/tmp/nameway-test-XXXXXX";
	strcpy(path + sizeof(path) - 7, "XXXXXX");
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, len), len);
	close(fd);
	return path;
}

static void a_file_to_compare(void **ctx)
{
	char words[128];
	(void)ctx;
	last.answer = "{\"list\":\"ads\",\"added\":30,\"removed\":1,\"added_entries\":[\"a\",\"b\"],\"removed_entries\":[\"c\"],"
	              "\"would_be_held\":true,\"why\":\"it shrinks\"}";
	const char *path = file_of("a\n# gr\xfc\xdf\0e\n", 11);
	snprintf(words, sizeof(words), "list diff ads %s", path);
	struct shown s = run(words);
	assert_int_equal(s.code, 0);
	assert_string_equal(json_string_value(json_object_get(last.request, "text")), "a\n# gr???e\n");
	assert_string_equal(s.out,
	        "ads: 30 entries would come, 1 would go\n+ a\n+ b\n+ … and 28 more\n- c\nit would be held back: it shrinks\n");
	shown_free(&s);
	unlink(path);
	char *large = malloc(1 << 20);
	memset(large, 'a', 1 << 20);
	path = file_of(large, 1 << 20);
	free(large);
	snprintf(words, sizeof(words), "list diff ads %s", path);
	assert_usage(words, "more than a request carries");
	unlink(path);
}

static void check_says_what_is_wrong(void **ctx)
{
	static const char good[] = "server: { listen: [\"127.0.0.1@53\"] }\nupstreams: { default: { servers: [192.0.2.53] } }\n",
	                  bad[] = "server: { lisen: [] }\n";
	char words[128];
	(void)ctx;
	const char *path = file_of(good, strlen(good));
	snprintf(words, sizeof(words), "check %s", path);
	struct shown s = run(words);
	assert_int_equal(s.code, 0);
	assert_has(s.out, " is valid");
	shown_free(&s);
	/* -c takes the socket from there. */
	snprintf(words, sizeof(words), "-c %s status", path);
	s = run(words);
	assert_int_equal(s.code, 0);
	shown_free(&s);
	unlink(path);
	path = file_of(bad, strlen(bad));
	snprintf(words, sizeof(words), "check %s", path);
	s = run(words);
	assert_int_equal(s.code, EXIT_USAGE);
	assert_has(s.out, ":1:11: error:");
	shown_free(&s);
	snprintf(words, sizeof(words), "--json check %s", path);
	s = run(words);
	assert_int_equal(s.code, EXIT_USAGE);
	assert_has(s.out, "\"ok\": false");
	shown_free(&s);
	snprintf(words, sizeof(words), "-c %s status", path);
	s = run(words);
	assert_int_equal(s.code, EXIT_USAGE);
	shown_free(&s);
	unlink(path);
	s = run("check /nonexistent/nameway.yaml");
	assert_int_equal(s.code, EXIT_USAGE);
	shown_free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(lines_make_requests, forget, forget),
	        cmocka_unit_test_setup_teardown(wrong_lines_ask_nothing, forget, forget),
	        cmocka_unit_test_setup_teardown(later_verbs_are_refused_by_name, forget, forget),
	        cmocka_unit_test_setup_teardown(every_verb_has_help, forget, forget),
	        cmocka_unit_test_setup_teardown(answers_and_exit_codes, forget, forget),
	        cmocka_unit_test_setup_teardown(following_asks_with_the_cursor, forget, forget),
	        cmocka_unit_test_setup_teardown(a_log_that_is_off_is_said, forget, forget),
	        cmocka_unit_test_setup_teardown(terminal_controls_are_not_passed_on, forget, forget),
	        cmocka_unit_test_setup_teardown(a_file_to_compare, forget, forget),
	        cmocka_unit_test_setup_teardown(check_says_what_is_wrong, forget, forget),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
