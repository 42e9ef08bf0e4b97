/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The cache over a restart: written to `state` when the server ends, read back before the first configuration is in force. The keys' group numbers are the
 * server's own and die with it, so what is kept are the groups' signatures (name, servers, way): an answer of a group that is configured otherwise now
 * does not come back. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/rcu.h"
#include "daemon/server_private.h"

static const char file_name[] = "cache", file_new[] = "cache.new";

static uint64_t signature_of(void *ctx, uint16_t group)
{
	const struct server *s = ctx;
	return group < s->group_id_count ? s->group_ids[group].signature : 0;
}

static bool group_of(void *ctx, uint64_t signature, uint16_t *ret)
{
	const struct server *s = ctx;
	for (unsigned i = 0; i < s->group_id_count; i++)
		if (s->group_ids[i].signature == signature) {
			*ret = (uint16_t)i;
			return true;
		}
	return false;
}

void server_cache_load(struct server *s)
{
	struct cache_store store = { .ctx = s, .name_seed = s->worker_shared.name_seed, .signature = signature_of, .group = group_of };
	int fd = s->args.state_fd < 0 ? -1 : openat(s->args.state_fd, file_name, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return;
	/* Answers grow old by the wall clock, and one that cannot be read must not stand in the way twice: one file serves one start. */
	unlinkat(s->args.state_fd, file_name, 0);
	rcu_online();
	int r = cache_load(s->cache, fd, (uint32_t)(clock_ms() / 1000), clock_wall_s(), &store);
	rcu_offline();
	close(fd);
	if (r < 0)
		log_info("kept answers: %s; what was whole is used", nw_strerror(r));
}

void server_cache_save(struct server *s)
{
	struct cache_store store = { .ctx = s, .name_seed = s->worker_shared.name_seed, .signature = signature_of, .group = group_of };
	int fd = s->args.state_fd < 0 ? -1 : openat(s->args.state_fd, file_new, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return;
	rcu_online();
	int r = cache_save(s->cache, fd, (uint32_t)(clock_ms() / 1000), clock_wall_s(), &store);
	rcu_offline();
	if (r == 0 && (fsync(fd) < 0 || renameat(s->args.state_fd, file_new, s->args.state_fd, file_name) < 0))
		r = -errno;
	close(fd);
	if (r < 0) {
		log_warn("the cache could not be kept: %s", nw_strerror(r));
		unlinkat(s->args.state_fd, file_new, 0);
	}
}

void server_cache_limits(struct server *s, const struct config *c)
{
	cache_set_limits(s->cache, &(struct cache_limits){ .ttl_min_s = c->cache.ttl_min_s, .ttl_max_s = c->cache.ttl_max_s,
		.negative_ttl_max_s = c->cache.negative_ttl_max_s, .stale_s = c->cache.serve_stale_s });
}
