/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Writing OPT records. No state; any thread. */
#include "wire/edns.h"

#include <string.h>

#include "wire/bytes.h"
#include "wire/msg.h"

enum { OPTION_EDE = 15, TTL_DO = 0x8000 };

static size_t ede_text_len(const struct edns_out *e)
{
	size_t len;

	if (!e->ede_text)
		return 0;
	len = strnlen(e->ede_text, EDNS_EDE_TEXT_MAX + 1);
	if (len <= EDNS_EDE_TEXT_MAX)
		return len;
	len = EDNS_EDE_TEXT_MAX;
	while (len > 0 && ((uint8_t)e->ede_text[len] & 0xc0) == 0x80)
		len--;
	return len;
}

size_t edns_len(const struct edns_out *e)
{
	return EDNS_OPT_LEN + (e->ede < 0 ? 0 : 6 + ede_text_len(e));
}

size_t edns_put(uint8_t *out, const struct edns_out *e)
{
	size_t text_len;

	out[0] = 0;
	store16(out + 1, RR_OPT);
	store16(out + 3, e->udp_size);
	store32(out + 5, (uint32_t)e->rcode_high << 24 | (e->has_do ? TTL_DO : 0));
	store16(out + 9, 0);
	if (e->ede < 0)
		return EDNS_OPT_LEN;
	text_len = ede_text_len(e);
	store16(out + 9, (uint16_t)(6 + text_len));
	store16(out + 11, OPTION_EDE);
	store16(out + 13, (uint16_t)(2 + text_len));
	store16(out + 15, (uint16_t)e->ede);
	if (text_len)
		memcpy(out + 17, e->ede_text, text_len);
	return EDNS_OPT_LEN + 6 + text_len;
}
