/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The control socket: one line of JSON there, one line back, each bounded and waited for only so long. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "config/config.h"

/* A reload waits for its lists; everything else answers long before. */
enum { ANSWER_MAX = 64 << 20, REQUEST_BYTES_MAX = 1 << 20, WAIT_MS = 10 * 60 * 1000 };

static int no(struct cli *c, const char *what, int e)
{
	const char *mend =
	        e == ENOENT || e == ECONNREFUSED
	                ? "namewayd does not run, or uses another socket. Mend: start it, or give its configuration with -c"
	        : e == EACCES ? "Mend: sudo, or become a member of the group `nameway`"
	                      : "Mend: look at the log of namewayd";
	fprintf(c->err, "nameway: %s %s: %s. %s\n", what, c->socket, strerror(e), mend);
	return EXIT_NO;
}

static int dial(struct cli *c)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	if (strlen(c->socket) >= sizeof(sa.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(sa.sun_path, c->socket, strlen(c->socket) + 1);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0) {
		int e = errno;
		close(fd);
		errno = e;
		return -1;
	}
	return fd;
}

static int send_all(int fd, const char *bytes, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = send(fd, bytes + at, len - at, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		at += (size_t)n;
	}
	return 0;
}

/* Reads to the end of the line or of the stream. */
static int receive_line(int fd, struct buf *b)
{
	char part[65536];
	uint64_t until = clock_ms() + WAIT_MS;
	while (!b->len || b->bytes[b->len - 1] != '\n') {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		uint64_t now = clock_ms();
		int r = now < until ? poll(&p, 1, (int)(until - now)) : 0;
		if (r < 0 && errno == EINTR)
			continue;
		if (r == 0)
			errno = ETIMEDOUT;
		if (r <= 0)
			return -1;
		ssize_t n = recv(fd, part, sizeof(part), 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		if (buf_add(b, part, (size_t)n) < 0) {
			errno = EMSGSIZE;
			return -1;
		}
	}
	errno = ECONNRESET;
	return b->len ? 0 : -1;
}

static int take_answer(struct cli *c, const struct buf *b, json_t **ret)
{
	json_t *answer = json_loadb(b->bytes, b->len, 0, NULL);
	int r = EXIT_NO;
	if (json_is_true(json_object_get(answer, "ok"))) {
		json_t *result = json_object_get(answer, "result");
		*ret = result ? json_incref(result) : json_null();
		r = 0;
	} else if (json_is_string(json_object_get(answer, "error"))) {
		fprintf(c->err, "nameway: %s\n", json_string_value(json_object_get(answer, "error")));
	} else {
		fprintf(c->err, "nameway: what answers on %s does not speak nameway's protocol\n", c->socket);
	}
	json_decref(answer);
	return r;
}

int cli_ask(struct cli *c, json_t *request, json_t **ret)
{
	char *line = json_dumps(request, JSON_COMPACT);
	json_decref(request);
	if (!line || strlen(line) >= REQUEST_BYTES_MAX) {
		fprintf(c->err, "nameway: the request is larger than the server takes (%d KiB)\n", REQUEST_BYTES_MAX >> 10);
		free(line);
		return EXIT_NO;
	}
	int r, fd = dial(c);
	struct buf b;
	buf_init(&b, ANSWER_MAX);
	if (fd < 0)
		r = no(c, "cannot reach", errno);
	else if (send_all(fd, line, strlen(line)) < 0 || send_all(fd, "\n", 1) < 0 || receive_line(fd, &b) < 0)
		r = no(c, "no answer on", errno);
	else
		r = take_answer(c, &b, ret);
	buf_free(&b);
	free(line);
	if (fd >= 0)
		close(fd);
	return r;
}

int cli_show(struct cli *c, json_t *request, void (*print)(FILE *out, const json_t *result))
{
	json_t *result = NULL;
	int r = c->ask(c, request, &result);
	if (r)
		return r;
	if (c->wants_json) {
		json_dumpf(result, c->out, JSON_INDENT(2) | JSON_ENCODE_ANY);
		fputc('\n', c->out);
	} else {
		print(c->out, result);
	}
	json_decref(result);
	return 0;
}

/* The socket that a configuration names. */
int cli_config_socket(struct cli *c, const char *path, char *ret, size_t size)
{
	struct report r;
	struct buf bundle;
	struct config *config = NULL;
	report_init(&r);
	int rc = config_bundle_read(&bundle, path, &r);
	if (rc == 0)
		rc = config_parse(&config, bundle.bytes, bundle.len, &r);
	if (rc < 0)
		fprintf(c->err, "%snameway: %s: not taken; -s SOCKET names the socket directly\n", r.text.len ? r.text.bytes : "",
		        path);
	else
		snprintf(ret, size, "%s", config->server.control);
	config_free(config);
	buf_free(&bundle);
	report_free(&r);
	return rc < 0 ? EXIT_USAGE : 0;
}
