/* Failure as a value: a status code and one sentence.
 *
 * Except for SP_E_CANCELLED, the status equals the exit code of the program. The sentence says what
 * is wrong, where, and what was expected; it is written once, where the failure is found, and only
 * ever gets context put in front of it ("shard 2: tensor x: ..."). Nothing below cli/ prints. */
#ifndef SP_FORMAT_BASE_ERR_H
#define SP_FORMAT_BASE_ERR_H

#ifdef __cplusplus
extern "C" {
#endif

enum sp_status {
    SP_OK = 0,
    SP_E_CHECK = 1,       /* a verification did not hold */
    SP_E_USAGE = 2,       /* the command was called wrongly */
    SP_E_INPUT = 3,       /* damaged, lying or contradictory input */
    SP_E_UNSUPPORTED = 4, /* well-formed, but not implemented or not possible on this machine */
    SP_E_IO = 5,
    SP_E_NOMEM = 6,
    SP_E_CANCELLED = 7, /* a callback or a signal stopped the work; the exit code is 1 */
    SP_E_BUG = 70,      /* our own mistake */
};

/* What a failure is about, where a program may know how its user gets around it: it can put its own
 * words behind the sentence. */
enum sp_topic {
    SP_TOPIC_NONE,
    SP_TOPIC_EXISTING,     /* a file exists already, and `force` is not set */
    SP_TOPIC_CACHES,       /* the memory of the KV caches */
    SP_TOPIC_MEMORY_LIMIT, /* the limit of a cache budget */
    SP_TOPIC_POOLING,      /* a model for which no pooling is known */
    SP_TOPIC_RANKING,      /* a model that is not known to be a reranker */
    SP_TOPIC_CALIBRATION,  /* a calibration in place of a model */
    SP_TOPIC_OUTPUT,       /* the default output exists already */
    SP_TOPIC_NO_DRAFT,     /* a type for a draft that is not there */
    SP_TOPIC_ROUNDED,      /* weights that would be rounded twice */
    SP_TOPIC_RULE,         /* a rule that matches no tensor */
    SP_TOPIC_CACHE_TYPES,  /* a file that does not state what types of KV caches cost */
    SP_TOPIC_NO_MODEL,     /* a name that neither a file nor a model has */
    SP_N_TOPICS,
};

enum { SP_ERR_TEXT = 1024 };

/* Valid when zeroed. */
struct sp_err {
    enum sp_status status;
    enum sp_topic topic;
    char text[SP_ERR_TEXT]; /* no trailing period, no newline */
};

/* Marks the functions that the shared library exports. */
#define SP_API __attribute__((visibility("default")))
#define SP_MUST_CHECK __attribute__((warn_unused_result))
/* The result of an exported function that can fail. */
#define SP_API_STATUS SP_API SP_MUST_CHECK enum sp_status
#define SP_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* Records the first failure (a later one does not replace it) and returns `status`. `err` may be
 * NULL. Control characters and what is not valid UTF-8 are shown as '?'. */
SP_API enum sp_status sp_fail(struct sp_err *err, enum sp_status status, const char *format, ...)
    SP_PRINTF(3, 4);
/* As sp_fail, with what the failure is about. */
SP_API enum sp_status sp_fail_about(struct sp_err *err, enum sp_status status, enum sp_topic topic,
                                    const char *format, ...) SP_PRINTF(4, 5);
/* Records a failure that another thread or step recorded in `from`; returns its status. */
SP_API enum sp_status sp_fail_as(struct sp_err *err, const struct sp_err *from);

/* Puts "text: " in front of a recorded failure; does nothing where none is recorded. */
SP_API void sp_context(struct sp_err *err, const char *format, ...) SP_PRINTF(2, 3);

#ifdef __cplusplus
}
#endif

#endif
