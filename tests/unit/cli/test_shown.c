/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the tool prints of what the verbs really answer, over the server in memory of control's tests: so both speak of the same
 * fields. */
#include "shown.h"
#include "../control/world.h"

static int ask_world(struct cli *c, json_t *request, json_t **ret)
{
	json_t *result = NULL;
	int r = control_run(&((struct world *)c->ask_ctx)->env, request, true, &result);
	json_decref(request);
	if (r < 0) {
		fprintf(c->err, "nameway: %s\n", json_string_value(result));
		json_decref(result);
		return EXIT_NO;
	}
	*ret = result;
	return 0;
}

static int set_up(void **ctx)
{
	struct world *w = malloc(sizeof(*w));
	world_begin(w);
	*ctx = w;
	return 0;
}

static int tear_down(void **ctx)
{
	world_end(*ctx);
	free(*ctx);
	return 0;
}

static void assert_shows(void *w, const char *words, const char *const *parts)
{
	struct shown s = show(ask_world, w, words);
	if (s.code)
		fail_msg("%s: %s", words, s.err);
	for (; *parts; parts++)
		assert_has(s.out, *parts);
	shown_free(&s);
}
#define SHOWS(w, words, ...) assert_shows(w, words, (const char *const[]){__VA_ARGS__, NULL})

static void a_status(void **ctx)
{
	struct world *w = *ctx;
	w->state = "{\"ways\":[{\"name\":\"tunnel2\",\"state\":\"down-link\",\"reason\":\"wg2 does not "
	           "exist\"}],\"table\":{\"stands\":true,\"protected\":true,\"rebuilds\":2},"
	           "\"alarms\":[{\"key\":\"x\",\"since\":1,\"text\":\"the set is full. Mend: split it\"}]}";
	SHOWS(w, "status", "nameway 0.1.0, up 3s", "0.0/s now", "cache     0 answers, ", " of 8.0 MiB",
	        "steering  ready; the table stands, protected, rebuilt 2 times",
	        "LIST  NAMES  PREFIXES  AGE  EDITS\nvpn       3         1", "tunnel2  down-link  wg2 does not exist",
	        "the set is full. Mend: split it\n");
	w->state = "{\"ways\":[],\"table\":{},\"alarms\":[]}";
	SHOWS(w, "status", "\nno alarms\n", "tunnel1  up\n");
	w->state = NULL;
	SHOWS(w, "status", "the enforcer does not answer", "ALARM for 0s: ");
	w->is_starting = true;
	SHOWS(w, "status", "not serving yet");
}

static void an_explanation(void **ctx)
{
	struct world *w = *ctx;
	world_cache(w, "www.vpn.example", "cdn.example");
	w->address = "{\"own\":false,\"never\":\"it is private\",\"rules\":[],\"ranges\":[]}";
	SHOWS(w, "explain www.vpn.example", "www.vpn.example A: answered when its addresses are in the sets of rule `Tunnel 1`",
	        "client    any host on br-lan", "groups: lan\n", "filter    no rule matches\n",
	        "steer     steer rule 2 `Tunnel 1` (t.yaml:23:5)\n",
	        "          list vpn: vpn.example, /etc/nameway/vpn.txt line 2\n", "way       tunnel1, mark 0x2000, up\n",
	        "of rule 2 `Tunnel 1`, for www.vpn.example\n",
	        "upstream  t1dns (10.64.0.1@53): it is the upstream of way `tunnel1`\n", "cache     an answer, ",
	        "www.vpn.example -> cdn.example: 10.0.0.1\n", "kernel    10.0.0.1 enters no set: it is private\n",
	        "lost      filter rule 1 `mine first`", "it is disabled\n");
	SHOWS(w, "explain x.ads.example", "answered NXDOMAIN: blocked by content filter\n",
	        "filter    block nxdomain by filter rule 2 `content filter`",
	        "list ads: ads.example, /etc/nameway/ads.txt line 1\n");
	SHOWS(w, "explain nothing.example", "cache     no answer is cached");
	w->address = NULL;
	SHOWS(w, "explain www.vpn.example", "kernel    10.0.0.1 not known: the enforcer does not answer\n");
	SHOWS(w, "explain 10.0.0.1", "10.0.0.1: cannot be said");
}

static void an_address(void **ctx)
{
	struct world *w = *ctx;
	char text[512];
	snprintf(text, sizeof(text),
	        "{\"own\":false,\"never\":null,\"rules\":[{\"rule\":2,\"id\":\"%08x\",\"name\":\"Tunnel "
	        "1\",\"set\":\"r1_4\",\"expires_s\":55}],\"ranges\":[]}",
	        w->snap.config->steers[1].id);
	w->address = text;
	world_cache(w, "www.vpn.example", "cdn.example");
	SHOWS(w, "explain 10.0.0.1", "10.0.0.1: its packets leave by way `tunnel1`: steer rule `Tunnel 1`\n",
	        "its set holds the address for 55 s more", "exit      way `tunnel1`, interface wg1",
	        "sets      r1_4 of rule 2 `Tunnel 1`, for 55 s more\n", "names     www.vpn.example\n",
	        "steer rule 2 comes first\n");
	snprintf(text, sizeof(text), "{\"own\":false,\"never\":null,\"rules\":[],\"ranges\":[{\"id\":\"%08x\",\"which\":0}]}",
	        w->snap.config->steers[1].id);
	SHOWS(w, "explain 203.0.113.9", "          list vpn, /etc/nameway/vpn.txt line 5\n",
	        "names     no cached answer has it\n");
	w->address = "{\"own\":false,\"never\":null,\"rules\":[],\"ranges\":[]}";
	SHOWS(w, "explain 198.51.100.66", "answers with it are blocked by filter rule 2", "/etc/nameway/ads.txt line 3\n");
}

static void rules_and_ways(void **ctx)
{
	struct world *w = *ctx;
	SHOWS(w, "rules",
	        "FILTER  NAME            CLIENTS   NAMES  ACTION    HITS  AT\n     1  mine first      all       mine   allow     "
	        "   0  t.yaml:18:5\n",
	        "vpn but mine", "tunnel2 (disabled)", "own group 10000", "counters and fill of the kernel are not known\n");
	w->state = "{\"ways\":[{\"name\":\"tunnel2\",\"state\":\"down-link\",\"reason\":\"wg2 does not "
	           "exist\",\"table\":20002,\"fallback\":\"direct\",\"missing\":[\"a rule is gone\"],"
	           "\"sets\":[{\"family\":\"inet\",\"table\":\"fw4\",\"set\":\"v4\",\"exists\":false}]}],\"rules\":[],\"table\":{"
	           "\"stands\":false}}";
	SHOWS(w, "rules", "does not stand in the kernel\n");
	SHOWS(w, "ways", "WAY      INTERFACE  MARK", "wg1        0x2000", "tunnel2", "20002", "direct", "wg2 does not exist",
	        "tunnel2: a rule is gone\n", "tunnel2 fills inet fw4 v4, which does not exist\n");
	w->state = NULL;
	SHOWS(w, "ways", "the enforcer does not answer");
	struct shown s = show(ask_world, w, "test way tunnel1");
	assert_int_equal(s.code, EXIT_NO);
	shown_free(&s);
}

static void lists_and_edits(void **ctx)
{
	struct world *w = *ctx;
	SHOWS(w, "list add ads new.example =one.example", "ads: 2 added, in force now\n");
	SHOWS(w, "list", "LIST  FORMAT", "names in the index, ");
	SHOWS(w, "list ads", "ads: ", "/etc/nameway/ads.txt", "added live: new.example =one.example\n", "not understood; taken ");
	SHOWS(w, "list remove ads new.example", "ads: 1 removed, in force now\n");
	SHOWS(w, "list reload ads", "ads: its files are in force\n");
	SHOWS(w, "cache stats", "0 answers, ");
	struct shown s = show(ask_world, w, "list nolist");
	assert_int_equal(s.code, EXIT_NO);
	assert_has(s.err, "there is no list `nolist`");
	shown_free(&s);
}

static void the_log_and_the_busiest(void **ctx)
{
	struct world *w = *ctx;
	for (unsigned i = 0; i < 3; i++)
		world_asked(w, "www.vpn.example", "192.168.8.20", OUTCOME_CACHED, -1);
	world_asked(w, "x.ads.example", "2001:db8::7", OUTCOME_BLOCKED, 1);
	SHOWS(w, "log", "  192.168.8.20     A      www.vpn.example  NOERROR cached  0.1 ms\n",
	        "  2001:db8::7      A      x.ads.example  NXDOMAIN blocked by content filter  0.1 ms\n");
	SHOWS(w, "log --blocked --json", "\"name\":\"x.ads.example\"", "\"filter\":\"content filter\"");
	struct shown s = show(ask_world, w, "log --client 192.168.8.20 -n 2");
	assert_null(strstr(s.out, "ads"));
	assert_non_null(strchr(s.out, '\n'));
	shown_free(&s);
	SHOWS(w, "top", "the last hour: 4 queries; 4 in the ", "QUERIES   SHARE  NAME\n      3  75.0 %  www.vpn.example\n",
	        "      3  75.0 %  192.168.8.20\n      1  25.0 %  2001:db8::7\n", "BLOCKED NAME\n      1  25.0 %  x.ads.example\n");
	SHOWS(w, "status", "log       on; ");
	SHOWS(w, "list", "PREFIXES  HITS  FILES");
}

static void pauses(void **ctx)
{
	struct world *w = *ctx;
	SHOWS(w, "filter", "every filter rule is in force\n");
	struct shown s = show(ask_world, w, "status");
	assert_null(strstr(s.out, "PAUSED"));
	shown_free(&s);
	SHOWS(w, "filter off 2h 2", "filter rule 2 `content filter` is passed over for ");
	SHOWS(w, "rules", "nxdomain (paused for ");
	SHOWS(w, "filter off 30m", "every filter rule is passed over for ", "filter rule 2 `content filter` is passed over for ");
	SHOWS(w, "status", "PAUSED    every filter rule is passed over for ");
	SHOWS(w, "filter on", "every filter rule is in force\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(a_status, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(an_explanation, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(an_address, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(rules_and_ways, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(lists_and_edits, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(the_log_and_the_busiest, set_up, tear_down),
	        cmocka_unit_test_setup_teardown(pauses, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
