/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Lists through members of the listed structs: of a list called `name` a struct has `name##_next` and `name##_prev`, which points at what points at it, so
 * that one is taken out without a walk and may be taken out twice. No allocation, no locks. */
#pragma once
#include <stddef.h>

#define FROM_MEMBER(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

#define LIST_ADD(head, s, name)                                                                                                  \
	do {                                                                                                                     \
		(s)->name##_next = (head);                                                                                       \
		(s)->name##_prev = &(head);                                                                                      \
		if (head)                                                                                                        \
			(head)->name##_prev = &(s)->name##_next;                                                                 \
		(head) = (s);                                                                                                    \
	} while (0)
#define LIST_DEL(s, name)                                                                                                        \
	do {                                                                                                                     \
		if (!(s)->name##_prev)                                                                                           \
			break;                                                                                                   \
		*(s)->name##_prev = (s)->name##_next;                                                                            \
		if ((s)->name##_next)                                                                                            \
			(s)->name##_next->name##_prev = (s)->name##_prev;                                                        \
		(s)->name##_next = NULL;                                                                                         \
		(s)->name##_prev = NULL;                                                                                         \
	} while (0)
