/* Results of the BLAS and LAPACK that numpy and scipy bundle, as another processor might round them.

   Loaded before them (LD_PRELOAD). A product is computed twice: as it is, and with its sum cut in two at a place that
   EXPRIL_JITTER draws. Where both agree nothing is known to be rounded, so sums of whole numbers stay exact; where they
   differ, the second is moved by a random relative error of some units in the last place. What a solver or a
   factorisation returns is moved likewise, but for values with few digits. All is a function of the seed, the shape and
   the value: a call that is repeated gives the same bytes, as on any one processor.

   The file includes itself once for each type of float and each width of integers. */

#ifndef SCALAR

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ULPS 4.0

static uint64_t seed;
static volatile uint64_t *moved; /* how many results were moved, in a file that all processes of a run share */

static uint64_t mixed(uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

/* Count in a file of 8 bytes from now on. */
void jitter_count_in(const char *path) {
  int file = open(path, O_RDWR | O_CLOEXEC);
  void *shared = file < 0 ? MAP_FAILED : mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (file >= 0) close(file);
  if (shared != MAP_FAILED) moved = shared;
}

uint64_t jitter_count(void) { return *moved; }

__attribute__((constructor)) static void begin(void) {
  static uint64_t alone;
  const char *given = getenv("EXPRIL_JITTER"), *path = getenv("EXPRIL_JITTER_COUNT");
  seed = mixed(given ? strtoull(given, NULL, 10) : 0);
  moved = &alone;
  if (path) jitter_count_in(path);
}

struct wanted {
  const char *name;
  void *found;
};

static int look(struct dl_phdr_info *info, size_t size, void *data) {
  (void)size;
  struct wanted *wanted = data;
  if (!strstr(info->dlpi_name, "libscipy_openblas")) return 0;
  void *library = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
  wanted->found = library ? dlsym(library, wanted->name) : NULL;
  return wanted->found != NULL;
}

static void *bundled(const char *name) {
  struct wanted wanted = {name, NULL};
  dl_iterate_phdr(look, &wanted);
  if (wanted.found) return wanted.found;
  fprintf(stderr, "jitter: no bundled BLAS has %s\n", name);
  abort();
}

#define PASTE(a, b, c, d) a##b##c##d
#define JOIN(a, b, c, d) PASTE(a, b, c, d)
#define TEXT_OF(a) #a
#define TEXT(a) TEXT_OF(a)
#define REAL(name) \
  static __typeof__(&name) real; \
  if (!real) real = (__typeof__(&name))bundled(TEXT(name))

enum { ROW_MAJOR = 101, COLUMN_MAJOR = 102, PLAIN = 111, TRANSPOSED = 112, UPPER = 121, LOWER = 122 };

#define SCALAR double
#define BITS uint64_t
#define SHORT 20
#define INTEGER int
#define FORTRAN(name) JOIN(scipy_d, name, _, )
#define CBLAS(name) JOIN(scipy_cblas_d, name, , )
#define OWN(name) JOIN(d_, name, _32, )
#include __FILE__
#undef INTEGER
#undef FORTRAN
#undef CBLAS
#undef OWN
#define INTEGER int64_t
#define FORTRAN(name) JOIN(scipy_d, name, _64_, )
#define CBLAS(name) JOIN(scipy_cblas_d, name, 64_, )
#define OWN(name) JOIN(d_, name, _64, )
#include __FILE__
#undef SCALAR
#undef BITS
#undef SHORT
#undef INTEGER
#undef FORTRAN
#undef CBLAS
#undef OWN
#define SCALAR float
#define BITS uint32_t
#define SHORT 10
#define INTEGER int
#define FORTRAN(name) JOIN(scipy_s, name, _, )
#define CBLAS(name) JOIN(scipy_cblas_s, name, , )
#define OWN(name) JOIN(s_, name, _32, )
#include __FILE__
#undef INTEGER
#undef FORTRAN
#undef CBLAS
#undef OWN
#define INTEGER int64_t
#define FORTRAN(name) JOIN(scipy_s, name, _64_, )
#define CBLAS(name) JOIN(scipy_cblas_s, name, 64_, )
#define OWN(name) JOIN(s_, name, _64, )
#include __FILE__

/* What torch computed; sitecustomize.py calls these. */
void jitter_float64(double *values, int64_t count) { d_matrix_32(values, count, 1, count, 'A'); }
void jitter_float32(float *values, int64_t count) { s_matrix_32(values, count, 1, count, 'A'); }

#else

#define UNIT (sizeof(SCALAR) == 8 ? 0x1p-52 : 0x1p-23)

static SCALAR OWN(shifted)(SCALAR value, uint64_t place) {
  BITS bits;
  memcpy(&bits, &value, sizeof bits);
  double uniform = (double)(mixed(seed ^ mixed(place) ^ bits) >> 11) * 0x1p-53;
  __atomic_fetch_add(moved, 1, __ATOMIC_RELAXED);
  return (SCALAR)(value * (1.0 + ULPS * UNIT * (2.0 * uniform - 1.0)));
}

/* A computed value; one with few digits (0, 1, a small whole number) may well be exact, and stays. */
static SCALAR OWN(computed)(SCALAR value, uint64_t place) {
  BITS bits;
  memcpy(&bits, &value, sizeof bits);
  return !isfinite(value) || !(bits & (((BITS)1 << SHORT) - 1)) ? value : OWN(shifted)(value, place);
}

/* A column-major matrix of computed values: all of it, or a triangle with the diagonal. */
static void OWN(matrix)(SCALAR *a, int64_t rows, int64_t columns, int64_t leading, char part) {
  for (int64_t j = 0; j < columns; j++)
    for (int64_t i = part == 'L' ? j : 0; i < (part == 'U' && j + 1 < rows ? j + 1 : rows); i++)
      a[i + j * leading] = OWN(computed)(a[i + j * leading], i * 8191 + j);
}

static int64_t OWN(cut)(int64_t length, int64_t shape) {
  return 1 + (int64_t)(mixed(seed + 31 * length + shape) % (uint64_t)(length - 1));
}

/* --- products ------------------------------------------------------------------------------------------- */

void CBLAS(gemm)(int order, int ta, int tb, INTEGER m, INTEGER n, INTEGER k, SCALAR alpha, const SCALAR *a, INTEGER lda,
                 const SCALAR *b, INTEGER ldb, SCALAR beta, SCALAR *c, INTEGER ldc) {
  REAL(CBLAS(gemm));
  int64_t outer = order == ROW_MAJOR ? m : n, inner = order == ROW_MAJOR ? n : m;
  SCALAR *other = k > 1 && outer > 0 && inner > 0 ? malloc(outer * inner * sizeof *other) : NULL;
  if (other)
    for (int64_t i = 0; i < outer; i++) memcpy(other + i * inner, c + i * ldc, inner * sizeof *c);
  real(order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  if (!other) return;
  int64_t first = OWN(cut)(k, m * 7 + n);
  int along_a = (order == ROW_MAJOR) == (ta == PLAIN), along_b = (order == ROW_MAJOR) != (tb == PLAIN);
  real(order, ta, tb, m, n, first, alpha, a, lda, b, ldb, beta, other, inner);
  real(order, ta, tb, m, n, k - first, alpha, a + first * (along_a ? 1 : lda), lda, b + first * (along_b ? 1 : ldb), ldb,
       1, other, inner);
  for (int64_t i = 0; i < outer; i++)
    for (int64_t j = 0; j < inner; j++)
      if (c[i * ldc + j] != other[i * inner + j]) c[i * ldc + j] = OWN(shifted)(other[i * inner + j], i * 8191 + j);
  free(other);
}

void CBLAS(syrk)(int order, int part, int transposed, INTEGER n, INTEGER k, SCALAR alpha, const SCALAR *a, INTEGER lda,
                 SCALAR beta, SCALAR *c, INTEGER ldc) {
  REAL(CBLAS(syrk));
  SCALAR *other = k > 1 && n > 0 ? malloc((int64_t)n * n * sizeof *other) : NULL;
  if (other)
    for (int64_t i = 0; i < n; i++) memcpy(other + i * n, c + i * ldc, n * sizeof *c);
  real(order, part, transposed, n, k, alpha, a, lda, beta, c, ldc);
  if (!other) return;
  int64_t first = OWN(cut)(k, n);
  int along = (order == ROW_MAJOR) == (transposed == PLAIN);
  real(order, part, transposed, n, first, alpha, a, lda, beta, other, n);
  real(order, part, transposed, n, k - first, alpha, a + first * (along ? 1 : lda), lda, 1, other, n);
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < n; j++) {
      int there = ((order == ROW_MAJOR) == (part == UPPER)) ? j >= i : j <= i;
      if (there && c[i * ldc + j] != other[i * n + j])
        c[i * ldc + j] = OWN(shifted)(other[i * n + j], i < j ? i * 8191 + j : j * 8191 + i);
    }
  free(other);
}

void CBLAS(gemv)(int order, int transposed, INTEGER m, INTEGER n, SCALAR alpha, const SCALAR *a, INTEGER lda,
                 const SCALAR *x, INTEGER step, SCALAR beta, SCALAR *y, INTEGER stride) {
  REAL(CBLAS(gemv));
  int64_t sum = transposed == PLAIN ? n : m, rows = transposed == PLAIN ? m : n;
  SCALAR *other = sum > 1 && rows > 0 && step > 0 && stride > 0 ? malloc(rows * sizeof *other) : NULL;
  if (other)
    for (int64_t i = 0; i < rows; i++) other[i] = y[i * stride];
  real(order, transposed, m, n, alpha, a, lda, x, step, beta, y, stride);
  if (!other) return;
  int64_t first = OWN(cut)(sum, rows);
  int along = (order == ROW_MAJOR) == (transposed == PLAIN);
  INTEGER m1 = transposed == PLAIN ? m : first, n1 = transposed == PLAIN ? first : n;
  INTEGER m2 = transposed == PLAIN ? m : m - first, n2 = transposed == PLAIN ? n - first : n;
  real(order, transposed, m1, n1, alpha, a, lda, x, step, beta, other, 1);
  real(order, transposed, m2, n2, alpha, a + first * (along ? 1 : lda), lda, x + first * step, step, 1, other, 1);
  for (int64_t i = 0; i < rows; i++)
    if (y[i * stride] != other[i]) y[i * stride] = OWN(shifted)(other[i], i);
  free(other);
}

SCALAR CBLAS(dot)(INTEGER n, const SCALAR *x, INTEGER step, const SCALAR *y, INTEGER stride) {
  REAL(CBLAS(dot));
  SCALAR plain = real(n, x, step, y, stride);
  if (n < 2 || step <= 0 || stride <= 0) return plain;
  int64_t first = OWN(cut)(n, 1);
  SCALAR other = real(first, x, step, y, stride) + real(n - first, x + first * step, step, y + first * stride, stride);
  return plain == other ? plain : OWN(shifted)(other, n);
}

static int OWN(flag)(const char *letter) { return *letter == 'N' || *letter == 'n' ? PLAIN : TRANSPOSED; }

void FORTRAN(gemm)(const char *ta, const char *tb, const INTEGER *m, const INTEGER *n, const INTEGER *k,
                   const SCALAR *alpha, const SCALAR *a, const INTEGER *lda, const SCALAR *b, const INTEGER *ldb,
                   const SCALAR *beta, SCALAR *c, const INTEGER *ldc) {
  CBLAS(gemm)(COLUMN_MAJOR, OWN(flag)(ta), OWN(flag)(tb), *m, *n, *k, *alpha, a, *lda, b, *ldb, *beta, c, *ldc);
}

void FORTRAN(syrk)(const char *part, const char *transposed, const INTEGER *n, const INTEGER *k, const SCALAR *alpha,
                   const SCALAR *a, const INTEGER *lda, const SCALAR *beta, SCALAR *c, const INTEGER *ldc) {
  int half = *part == 'U' || *part == 'u' ? UPPER : LOWER;
  CBLAS(syrk)(COLUMN_MAJOR, half, OWN(flag)(transposed), *n, *k, *alpha, a, *lda, *beta, c, *ldc);
}

void FORTRAN(gemv)(const char *transposed, const INTEGER *m, const INTEGER *n, const SCALAR *alpha, const SCALAR *a,
                   const INTEGER *lda, const SCALAR *x, const INTEGER *step, const SCALAR *beta, SCALAR *y,
                   const INTEGER *stride) {
  CBLAS(gemv)(COLUMN_MAJOR, OWN(flag)(transposed), *m, *n, *alpha, a, *lda, x, *step, *beta, y, *stride);
}

SCALAR FORTRAN(dot)(const INTEGER *n, const SCALAR *x, const INTEGER *step, const SCALAR *y, const INTEGER *stride) {
  return CBLAS(dot)(*n, x, *step, y, *stride);
}

SCALAR FORTRAN(nrm2)(const INTEGER *n, const SCALAR *x, const INTEGER *step) {
  REAL(FORTRAN(nrm2));
  SCALAR plain = real(n, x, step);
  return *n < 2 ? plain : OWN(computed)(plain, *n);
}

/* --- solvers and factorisations ------------------------------------------------------------------------- */

/* Fortran passes pointers alone, so a call is handed on without a look at what stands in each place. What the caller
   pushed for lengths of texts goes along. */
#define PLACES                                                                                                        \
  void *p0, void *p1, void *p2, void *p3, void *p4, void *p5, void *p6, void *p7, void *p8, void *p9, void *p10,      \
      void *p11, void *p12, void *p13, void *p14, void *p15, void *p16, void *p17, void *p18, void *p19, void *p20,   \
      void *p21, void *p22, void *p23
#define HANDED                                                                                                        \
  p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13, p14, p15, p16, p17, p18, p19, p20, p21, p22, p23
#define WHOLE(place) ((int64_t) * (INTEGER *)p##place)
#define MARK(place) (*(char *)p##place & 0xdf)
#define LESSER(a, b) ((a) < (b) ? (a) : (b))
#define OUT(place, rows, columns, leading, part) OWN(matrix)(p##place, rows, columns, leading, part)

#define SOLVER(name, asks_for_room, outputs)       \
  void FORTRAN(name)(PLACES) {                     \
    REAL(FORTRAN(name));                           \
    int room = asks_for_room;                      \
    real(HANDED);                                  \
    if (room) return;                              \
    outputs;                                       \
  }

SOLVER(trsm, 0, OUT(9, WHOLE(4), WHOLE(5), WHOLE(10), 'A'))
SOLVER(trsv, 0, if (WHOLE(7) == 1) OUT(6, WHOLE(3), 1, WHOLE(3), 'A'))
SOLVER(trtrs, 0, OUT(7, WHOLE(3), WHOLE(4), WHOLE(8), 'A'))
SOLVER(potrf, 0, OUT(2, WHOLE(1), WHOLE(1), WHOLE(3), MARK(0)))
SOLVER(potri, 0, OUT(2, WHOLE(1), WHOLE(1), WHOLE(3), MARK(0)))
SOLVER(potrs, 0, OUT(5, WHOLE(1), WHOLE(2), WHOLE(6), 'A'))
SOLVER(posv, 0, OUT(5, WHOLE(1), WHOLE(2), WHOLE(6), 'A'))
SOLVER(getrf, 0, OUT(2, WHOLE(0), WHOLE(1), WHOLE(3), 'A'))
SOLVER(getri, WHOLE(5) == -1, OUT(1, WHOLE(0), WHOLE(0), WHOLE(2), 'A'))
SOLVER(getrs, 0, OUT(6, WHOLE(1), WHOLE(2), WHOLE(7), 'A'))
SOLVER(gesv, 0, OUT(5, WHOLE(0), WHOLE(1), WHOLE(6), 'A'))
SOLVER(sysv, WHOLE(9) == -1, OUT(6, WHOLE(1), WHOLE(2), WHOLE(7), 'A'))
SOLVER(gelsd, WHOLE(11) == -1, OUT(5, WHOLE(1), WHOLE(2), WHOLE(6), 'A'))
SOLVER(geqrf, WHOLE(6) == -1, OUT(2, WHOLE(0), WHOLE(1), WHOLE(3), 'U'))
SOLVER(orgqr, WHOLE(7) == -1, OUT(3, WHOLE(0), WHOLE(1), WHOLE(4), 'A'))
SOLVER(syev, WHOLE(7) == -1, OUT(5, WHOLE(2), 1, WHOLE(2), 'A'); if (MARK(0) == 'V') OUT(3, WHOLE(2), WHOLE(2), WHOLE(4), 'A'))
SOLVER(syevd, WHOLE(7) == -1, OUT(5, WHOLE(2), 1, WHOLE(2), 'A'); if (MARK(0) == 'V') OUT(3, WHOLE(2), WHOLE(2), WHOLE(4), 'A'))
SOLVER(syevr, WHOLE(17) == -1, OUT(12, WHOLE(11), 1, WHOLE(3), 'A'); if (MARK(0) == 'V') OUT(13, WHOLE(3), WHOLE(11), WHOLE(14), 'A'))
SOLVER(gesdd, WHOLE(11) == -1, int64_t least = LESSER(WHOLE(1), WHOLE(2)); OUT(5, least, 1, least, 'A');
       if (MARK(0) == 'A' || MARK(0) == 'S') {
         OUT(6, WHOLE(1), MARK(0) == 'A' ? WHOLE(1) : least, WHOLE(7), 'A');
         OUT(8, MARK(0) == 'A' ? WHOLE(2) : least, WHOLE(2), WHOLE(9), 'A');
       })

#undef UNIT
#endif
