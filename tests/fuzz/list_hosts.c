/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Lines of hosts files as a list. */
#include "list_lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	check_lines(&list_format_hosts, bytes, len);
	return 0;
}
