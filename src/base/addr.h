/* SPDX-License-Identifier: GPL-3.0-or-later */
/* IP addresses and prefixes, one form for both families: 16 bytes, IPv4 in the first four (network order), rest zero. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct addr { uint8_t family; /* AF_INET, AF_INET6, 0 = none */ uint8_t b[16]; };
struct prefix { struct addr addr; uint8_t len; /* bits; host bits of addr are zero */ };
struct endpoint { struct addr addr; uint16_t port; /* host order */ uint32_t scope; /* ifindex of a link-local address or 0 */ };

#define ADDR_TEXT_MAX 64
int addr_parse(struct addr *ret, const char *text);                 /* 0, NW_EMALFORMED */
int prefix_parse(struct prefix *ret, const char *text);             /* "A" is a full-length prefix; host bits are cleared */
int endpoint_parse(struct endpoint *ret, const char *text, uint16_t default_port); /* "1.2.3.4@53", "[::1]@53", "1.2.3.4", "::1" */
const char *addr_print(char buf[ADDR_TEXT_MAX], const struct addr *a); /* returns buf */
const char *prefix_print(char buf[ADDR_TEXT_MAX], const struct prefix *p);
bool addr_equal(const struct addr *a, const struct addr *b);
bool prefix_contains(const struct prefix *p, const struct addr *a);
int addr_from_sockaddr(struct endpoint *ret, const struct sockaddr *sa); /* v4-mapped becomes IPv4 */
socklen_t endpoint_to_sockaddr(struct sockaddr_storage *ret, const struct endpoint *e);
/* RFC 1918, 100.64/10, link-local, loopback, fc00::/7, unspecified, v4-mapped of these: what never enters a set unless `private: true`. */
bool addr_is_private(const struct addr *a);
/* Multicast, broadcast, unspecified, 0/8, loopback: never enters a set whatever the way says. */
bool addr_is_never_remote(const struct addr *a);
bool addr_is_loopback(const struct addr *a); /* 127/8, ::1 */
