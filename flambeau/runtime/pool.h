/* What Cython lacks for pool.pxi: atomics, thread-local state, sleep and wake on a word. */
#ifndef FLAMBEAU_POOL_H
#define FLAMBEAU_POOL_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <time.h>

#define POOL_MOST_THREADS 1024

typedef void (*pool_kernel_fn)(const int64_t *args, int64_t begin, int64_t end);

/* Everything that threads share. Each group has its own cache lines: one transfer of the first hands a worker
   the whole job, and finishing workers do not disturb claiming ones. 128: x86 fetches lines in pairs. */
typedef struct {
    /* generation << 16 | chunks not yet claimed; the job below belongs to that generation */
    __attribute__((aligned(128))) uint64_t state;
    uintptr_t kernel, args;
    int64_t extent, chunk, count;
    /* chunks not yet finished; the caller sleeps on this word */
    __attribute__((aligned(128))) uint32_t pending;
    uint32_t caller_sleeps;
    /* workers sleep on `wakes`, which changes with every call to wake them */
    __attribute__((aligned(128))) uint32_t wakes;
    uint32_t sleepers, stop;
    /* held by the caller whose job it is */
    __attribute__((aligned(128))) uint32_t busy;
} pool_shared_t;

static pool_shared_t pool_shared;
static pthread_t pool_workers[POOL_MOST_THREADS];
static __thread int pool_inside = 0;    /* this thread is running a chunk: what it calls runs inline */

static inline int pool_is_inside(void) { return pool_inside; }
static inline void pool_set_inside(int inside) { pool_inside = inside; }

#define pool_get(word) __atomic_load_n(&(word), __ATOMIC_SEQ_CST)
#define pool_get_relaxed(word) __atomic_load_n(&(word), __ATOMIC_RELAXED)
#define pool_set(word, value) __atomic_store_n(&(word), (value), __ATOMIC_SEQ_CST)
#define pool_set_relaxed(word, value) __atomic_store_n(&(word), (value), __ATOMIC_RELAXED)
#define pool_add(word, value) __atomic_add_fetch(&(word), (value), __ATOMIC_SEQ_CST)
#define pool_subtract(word, value) __atomic_sub_fetch(&(word), (value), __ATOMIC_SEQ_CST)
#define pool_try_lock(word) (__atomic_exchange_n(&(word), 1, __ATOMIC_ACQUIRE) == 0)
#define pool_unlock(word) __atomic_store_n(&(word), 0, __ATOMIC_RELEASE)

static inline int pool_swap_state(uint64_t seen, uint64_t next) {
    return __atomic_compare_exchange_n(&pool_shared.state, &seen, next, 0,
                                       __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

static inline void pool_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

static inline int64_t pool_now(void) {   /* nanoseconds */
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* pool_sleep: return once `*word != seen` or pool_wake was called for it (or for no reason: callers loop).
   pool_wake: wake up to `count` sleepers of the word. */
#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

static void pool_sleep(uint32_t *word, uint32_t seen) {
    int kept = errno;
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
    errno = kept;
}

static void pool_wake(uint32_t *word, int count) {
    int kept = errno;
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
    errno = kept;
}

static void pool_reset_sleep(void) {}

#else
static pthread_mutex_t pool_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t pool_condition = PTHREAD_COND_INITIALIZER;

static void pool_sleep(uint32_t *word, uint32_t seen) {
    pthread_mutex_lock(&pool_mutex);
    if (pool_get(*word) == seen)
        pthread_cond_wait(&pool_condition, &pool_mutex);
    pthread_mutex_unlock(&pool_mutex);
}

static void pool_wake(uint32_t *word, int count) {
    (void)word;
    (void)count;                         /* both words share the condition: wake all, each looks again */
    pthread_mutex_lock(&pool_mutex);
    pthread_cond_broadcast(&pool_condition);
    pthread_mutex_unlock(&pool_mutex);
}

static void pool_reset_sleep(void) {     /* in a forked child: nobody holds these any more */
    pthread_mutex_init(&pool_mutex, NULL);
    pthread_cond_init(&pool_condition, NULL);
}
#endif

/* A worker blocks every signal, so that handlers run on the program's own threads. 0: started. */
static int pool_create_worker(pthread_t *thread, void *(*body)(void *)) {
    pthread_attr_t attributes;
    sigset_t all, kept;
    int failed;
    if (pthread_attr_init(&attributes))
        return 1;
    pthread_attr_setstacksize(&attributes, (size_t)8 << 20);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &kept);
    failed = pthread_create(thread, &attributes, body, NULL);
    pthread_sigmask(SIG_SETMASK, &kept, NULL);
    pthread_attr_destroy(&attributes);
    return failed;
}

#endif
