/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Writing one packet rule: rule_begin, conditions and actions in order, rule_end. Each helper appends the libnftnl expressions of one phrase of the nft
 * language, which its comment gives. Sets of values become anonymous sets of the same batch, so a rule brings all it needs.
 * Failures are sticky: rule_end marks the batch as failed. */
#pragma once
#include "steer/nft_internal.h"

struct nftnl_rule;
struct rule {
	struct nft *n;
	struct nft_batch *b;
	struct nftnl_rule *r;
};

void rule_begin(struct rule *x, struct nft *n, struct nft_batch *b, const char *chain);
void rule_end(struct rule *x, const char *comment /* or NULL */);

enum dir { SRC, DST, IN, OUT };
/* conditions */
void match_family(struct rule *x, bool is_v6);                            /* meta nfproto ipv4 */
void match_interface(struct rule *x, enum dir d, const char *name);       /* iifname "x" */
void match_lo(struct rule *x, enum dir d);                                /* iif "lo" */
void match_interfaces(struct rule *x, enum dir d, const char (*names)[IFNAME_MAX], unsigned count, bool is_negated); /* iifname { … } */
void match_set_interface(struct rule *x, enum dir d, const char *set);    /* iifname @set */
void match_address(struct rule *x, enum dir d, const struct addr *a);     /* ip daddr A, with the family */
void match_address_set(struct rule *x, enum dir d, bool is_v6, const char *set, bool is_negated); /* ip daddr @set; the family must be matched before */
void match_prefixes(struct rule *x, enum dir d, bool is_v6, const struct prefix *p, unsigned count, bool is_negated); /* ip saddr { … }; those of the family */
void match_endpoints(struct rule *x, bool is_v6, const struct endpoint *e, unsigned count, uint8_t protocol); /* ip daddr . th dport { … } */
void match_macs(struct rule *x, const uint8_t (*macs)[6], unsigned count, bool is_negated); /* ether saddr { … }; only after match_ether */
void match_ether(struct rule *x, bool is_negated);                        /* meta iiftype ether */
void match_protocol(struct rule *x, uint8_t protocol);                    /* meta l4proto udp */
void match_port(struct rule *x, enum dir d, uint16_t port);               /* th dport N */
void match_ports(struct rule *x, enum dir d, const uint16_t *ports, unsigned count);
void match_local(struct rule *x, enum dir d, bool is_negated);            /* fib daddr type local */
void match_not_forwarded(struct rule *x);                                  /* fib daddr type { local, broadcast, multicast } */
void match_source_not_of_exit(struct rule *x);                            /* fib saddr . oif type != local */
void match_direction(struct rule *x, bool is_reply);                      /* ct direction reply */
void match_new(struct rule *x);                                           /* ct state new */
void match_untracked(struct rule *x);                                     /* ct state untracked */
void match_gid(struct rule *x, uint32_t gid);                             /* meta skgid N */
void match_syn(struct rule *x);                                           /* tcp flags syn / syn,rst */
/* actions */
void act_mark(struct rule *x, uint32_t mask, uint32_t value);             /* meta mark set mark & ~mask | value */
void act_ct_mark(struct rule *x, uint32_t mask, uint32_t value);
void act_mark_whole(struct rule *x, uint32_t value);                      /* meta mark set V */
void act_mark_of_mac(struct rule *x, const char *map);                    /* meta mark set ether saddr map @map */
void act_counter(struct rule *x, const char *name);                       /* counter name N */
void act_ct_timeout(struct rule *x, const char *name);                    /* ct timeout set N */
void act_verdict(struct rule *x, int verdict, const char *chain);         /* accept, return, jump X, goto X */
void act_redirect(struct rule *x, uint16_t port);
void act_masquerade(struct rule *x);
void act_notrack(struct rule *x);
void act_clamp_mss(struct rule *x);                                       /* tcp option maxseg size set rt mtu */
void act_reject(struct rule *x, bool is_tcp);                             /* reject with tcp reset, or port unreachable */
/* vmaps: the key is loaded, then looked up; every entry is a goto. */
struct jump_table { const void *key; size_t key_len; const char *chain; };
void act_go_by_interface(struct rule *x, enum dir d, const struct jump_table *t, unsigned count); /* iifname vmap { … }, keys IFNAME_MAX long */
void act_go_by_mark(struct rule *x, bool is_ct, uint32_t mask, const struct jump_table *t, unsigned count); /* ct mark & mask vmap { … } */
