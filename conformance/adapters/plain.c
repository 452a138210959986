/* Levels 0 and 1 of conditional mixture networks in C99, with no library but libm.

       cc -std=c99 -O2 -Wall -Wextra -Werror -o plain conformance/adapters/plain.c -lm
       python -m cmn_conformance run --level 0-1 --command ./plain        (or: node conformance/runner.mjs --level 0-1 ./plain)

   Three parts: a reader of JSON; the operations; the protocol, one line in and one line out.  Arrays are flat, the last index running
   fastest. */

#include <ctype.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double LOG2 = 0.69314718055994530942, LOG2PI = 1.8378770664093454836;

/* ---- memory and errors: what a question needs is freed before the next one */

static jmp_buf answer_with_error;
static const char *problem;
static void **blocks;
static size_t n_blocks;
static void fail(const char *why) { problem = why; longjmp(answer_with_error, 1); }

static void *resized(void *old, size_t size) {
    void *p = realloc(old, size ? size : 1);
    if (!p) { fputs("plain: no memory\n", stderr); exit(1); }
    return p;
}

static void *fresh(size_t count, size_t size) {
    void *p = resized(NULL, count * size);
    blocks = resized(blocks, (n_blocks + 1) * sizeof *blocks);
    return blocks[n_blocks++] = memset(p, 0, count * size);
}

static double *numbers(size_t count) { return fresh(count, sizeof(double)); }
static void free_all(void) { while (n_blocks) free(blocks[--n_blocks]); }

/* ---- JSON: a value is a number, a text, or a list of values that have keys if it is an object */

typedef struct Value Value;
struct Value { char kind; double number; char *text, *key; Value *first, *next; };

static const char *at;
static void space(void) { while (isspace((unsigned char)*at)) at++; }

static void expect(char c) { space(); if (*at++ != c) fail("this is not JSON"); }

static char *read_text(void) {
    char *out = fresh(strlen(at) + 1, 1), *end = out;
    for (expect('"'); *at != '"'; at++) {
        if (!*at) fail("a string without an end");
        if (*at == '\\' && at[1]) at++;                                                 /* no name or id needs an escape */
        *end++ = *at;
    }
    at++;
    return out;
}

static Value *read_value(void) {
    Value *v = fresh(1, sizeof *v), **last = &v->first;
    space();
    v->kind = *at;
    if (*at == '"') { v->text = read_text(); return v; }
    if (*at == '{' || *at == '[') {
        char close = *at++ == '{' ? '}' : ']';
        for (space(); *at != close; space()) {
            char *key = NULL;
            if (last != &v->first) { expect(','); space(); }
            if (close == '}') { key = read_text(); expect(':'); }
            *last = read_value();
            (*last)->key = key;
            last = &(*last)->next;
        }
        at++;
        return v;
    }
    if (isalpha((unsigned char)*at)) { while (isalpha((unsigned char)*at)) at++; return v; }      /* null, true, false */
    char *end;
    v->number = strtod(at, &end);
    if (end == at) fail("this is not JSON");
    v->kind = '0';
    at = end;
    return v;
}

static Value *member(Value *object, const char *key) {
    Value *v = object && object->kind == '{' ? object->first : NULL;
    while (v && strcmp(v->key, key)) v = v->next;
    return v;
}

static const char *text_of(Value *object, const char *key) {
    Value *v = member(object, key);
    return v && v->text ? v->text : "";
}

/* ---- what a question gives, and what the answer will hold */

typedef struct { int rank; size_t size, shape[4]; double *data; } Array;

static Value *question;
static struct { const char *name; Array array; } outputs[8];
static int n_outputs;

static double read_number(Value *v) {
    if (v->kind != '0' && v->kind != '"') fail("expected a number");
    return v->text ? strtod(v->text, NULL) : v->number;                                 /* "nan", "inf", "-inf" */
}

static Array in(const char *name) {
    Value *v = member(member(question, "in"), name), *item;
    Array a = {0, 1, {1, 1, 1, 1}, NULL};
    if (!v) fail("an input is missing");
    if (v->kind != '{') { a.data = numbers(1); a.data[0] = read_number(v); return a; }
    Value *shape = member(v, "shape"), *data = member(v, "data");
    if (!shape || !data) fail("expected shape and data");
    for (item = shape->first; item; item = item->next) {
        if (a.rank == 4) fail("expected at most four axes");
        a.shape[a.rank] = (size_t)read_number(item);
        a.size *= a.shape[a.rank++];
    }
    a.data = numbers(a.size);
    size_t i = 0;
    for (item = data->first; item && i < a.size; item = item->next) a.data[i++] = read_number(item);
    if (item || i < a.size) fail("shape and data do not agree");
    return a;
}

static double in_number(const char *name) { return in(name).data[0]; }

static double *out(const char *name, int rank, size_t n0, size_t n1, size_t n2) {
    Array a = {rank, n0 * n1 * n2, {n0, n1, n2, 1}, NULL};
    a.data = numbers(a.size);
    outputs[n_outputs].name = name;
    outputs[n_outputs++].array = a;
    return a.data;
}

static void pairs(const char *x, const char *y, double f(double, double), const char *name) {
    Array a = in(x), b = in(y);
    double *o = out(name, 1, a.size, 1, 1);
    for (size_t i = 0; i < a.size; i++) o[i] = f(a.data[i], b.data[i]);
}

/* ---- level 0: sticks */

static double log_sigmoid(double t) { return t > 0 ? -log1p(exp(-t)) : t - log1p(exp(t)); }

static double log_sum(const double *t, size_t n) {
    double top = -INFINITY, total = 0;
    for (size_t i = 0; i < n; i++) if (t[i] > top) top = t[i];
    for (size_t i = 0; i < n; i++) total += isinf(top) ? 1 : exp(t[i] - top);
    return top + log(total);
}

static void stick_counts(void) {
    Array w = in("weights");
    size_t n = w.shape[0], K = w.shape[1];
    double *b = out("b", 2, n, K - 1, 1), *kappa = out("kappa", 2, n, K - 1, 1);
    for (size_t i = 0; i < n; i++, b += K - 1, kappa += K - 1) {
        double *row = w.data + i * K, tosses = row[K - 1];
        for (size_t j = K - 1; j-- > 0; kappa[j] = row[j] - tosses / 2) b[j] = tosses += row[j];
    }
}

static void stick_logits(void) {
    Array p = in("log_probs");
    size_t K = p.shape[1];
    double *psi = out("psi", 2, p.shape[0], K - 1, 1);
    for (size_t i = 0; i < p.size; i++) {
        double later = log_sum(p.data + i + 1, K - i % K - 1);
        if (i % K + 1 < K) *psi++ = isinf(p.data[i]) && isinf(later) ? 0 : p.data[i] - later;
    }
}

/* ---- level 0: Polya-Gamma moments, for one toss */

static double log_cosh(double c) { return c < 1 ? log1p(2 * pow(sinh(c / 4), 2)) : c / 2 + log1p(exp(-c)) - LOG2; }
static double theta(double c) { return fabs(c) < 1e-150 ? 0.25 : tanh(c / 2) / (2 * c); }

static double variance(double c) {
    c = fabs(c);
    if (c < 1) {
        double term = 1.0 / 6, total = 0;                                               /* (sinh c - c) / c^3 */
        for (int m = 1; m < 10; m++) { total += term; term *= c * c / ((2 * m + 2) * (2 * m + 3)); }
        return total / (4 * pow(cosh(c / 2), 2));
    }
    double e = exp(-c);
    return (1 - e * e - 2 * c * e) / (2 * c * c * c * (1 + e) * (1 + e));
}

static double tilt_kl(double c) {
    c = fabs(c);
    if (c >= 0.5) return log_cosh(c) - c / 4 * tanh(c / 2);
    double t = pow(tanh(c / 2), 2), power = t, total = 0;
    for (int m = 2; m < 15; m++) { power *= t; total += (m - 1) / (2.0 * m * (2 * m - 1)) * power; }
    return total;
}

static double tosses_mean(double b, double c) { return b * theta(c); }
static double tosses_variance(double b, double c) { return b * variance(c); }
static double tosses_kl(double b, double c) { return b * tilt_kl(c); }
static void pg_mean(void) { pairs("b", "c", tosses_mean, "mean"); }
static void pg_var(void) { pairs("b", "c", tosses_variance, "var"); }
static void pg_kl(void) { pairs("b", "c", tosses_kl, "kl"); }

static void log_cosh_half(void) {
    Array c = in("c");
    double *o = out("value", 1, c.size, 1, 1);
    for (size_t i = 0; i < c.size; i++) o[i] = log_cosh(fabs(c.data[i]));
}

/* ---- level 0: the sigmoid averaged over a normal, by the trapezoid rule with a step that the poles of the sigmoid set */

static double log_mean(double m, double v) {
    if (v == 0) return log_sigmoid(m);
    if (m > 0) return log1p(-exp(log_mean(-m, v)));
    double s = sqrt(v), wide = sqrt(80.0), r = 3.14159265358979323846 / s;
    if (r > wide) r = wide;
    double step = 2 * 3.14159265358979323846 * r / (40 + r * r / 2);
    long first = (long)(-wide / step) - 1, last = (long)((s + wide) / step) + 2;
    double *terms = numbers((size_t)(last - first));
    for (long i = first; i < last; i++) {
        double t = i * step;
        terms[i - first] = s * t - t * t / 2 + log_sigmoid(-m - s * t);
    }
    return m + log_sum(terms, (size_t)(last - first)) + log(step) - LOG2PI / 2;
}

static void log_sigmoid_normal(void) { pairs("m", "v", log_mean, "log_mean"); }

static void sticks(Array m, const double *v) {
    size_t n = m.shape[0], J = m.shape[1];
    double *p = out("log_probs", 2, n, J + 1, 1);
    for (size_t i = 0; i < n; i++, p += J + 1)
        for (size_t j = 0; j < J; j++) {
            double mean = m.data[i * J + j], spread = v ? v[i * J + j] : 0, reach = p[j];
            p[j] = reach + log_mean(mean, spread);
            p[j + 1] = reach + log_mean(-mean, spread);
        }
}

static void stick_log_probs(void) { sticks(in("psi"), NULL); }
static void stick_log_means(void) { sticks(in("m"), in("v").data); }

/* ---- level 1 */

static double digamma(double x) {
    double shift = 0;
    for (; x < 10; x++) shift -= 1 / x;
    double u = 1 / (x * x);
    return shift + log(x) - 1 / (2 * x)
        - u * (1. / 12 - u * (1. / 120 - u * (1. / 252 - u * (1. / 240 - u * (1. / 132 - u * (691. / 32760 - u / 12))))));
}

static double log_det(const double *S, size_t m) {
    double *C = numbers(m * m), total = 0;                                              /* S = C C^T */
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j <= i; j++) {
            double rest = S[i * m + j];
            for (size_t k = 0; k < j; k++) rest -= C[i * m + k] * C[j * m + k];
            if (i == j && !(rest > 0)) fail("a covariance is not positive definite");
            C[i * m + j] = i == j ? sqrt(rest) : rest / C[j * m + j];
        }
    for (size_t i = 0; i < m; i++) total += 2 * log(C[i * m + i]);
    return total;
}

static double dot(const double *u, const double *v, size_t n) { return n ? *u * *v + dot(u + 1, v + 1, n - 1) : 0; }
static double trace(const double *S, size_t m, size_t step) { return m ? *S + trace(S + step, m - 1, step) : 0; }

static double *padded(const double *x, size_t m) {
    double *xt = numbers(m + 1);
    memcpy(xt, x, m * sizeof *x);
    xt[m] = 1;
    return xt;
}

static void moment(size_t extra) {
    Array mu = in("mu"), S = in("S");
    size_t m = mu.size, D = m + extra;
    double *x = padded(mu.data, m), *o = out("value", 2, D, D, 1);
    for (size_t i = 0; i < D; i++)
        for (size_t j = 0; j < D; j++) o[i * D + j] = x[i] * x[j] + (i < m && j < m ? S.data[i * m + j] : 0);
}

static void second_moment(void) { moment(0); }
static void padded_second_moment(void) { moment(1); }

static void gaussian_entropy(void) {
    Array S = in("S");
    *out("value", 0, 1, 1, 1) = (S.shape[0] * (1 + LOG2PI) + log_det(S.data, S.shape[0])) / 2;
}

static void gaussian_kl(void) {
    Array mu = in("mu"), S = in("S");
    double sigma = in_number("sigma"), m = (double)mu.size;
    *out("value", 0, 1, 1, 1) = ((trace(S.data, mu.size, mu.size + 1) + dot(mu.data, mu.data, mu.size)) / (sigma * sigma) - m + 2 * m * log(sigma)
                                 - log_det(S.data, mu.size)) / 2;
}

static double gamma_kl_one(double a, double b, double a0, double b0) {
    return (a - a0) * digamma(a) - lgamma(a) + lgamma(a0) + a0 * (log(b) - log(b0)) + a * (b0 - b) / b;
}

static double mean_log(double a, double b) { return digamma(a) - log(b); }
static void gamma_mean_log(void) { pairs("a", "b", mean_log, "value"); }

static void gamma_kl(void) {
    Array a = in("a"), b = in("b");
    double a0 = in_number("a0"), b0 = in_number("b0"), *o = out("value", 1, a.size, 1, 1);
    for (size_t i = 0; i < a.size; i++) o[i] = gamma_kl_one(a.data[i], b.data[i], a0, b0);
}

static void mng_kl(void) {
    Array M = in("M"), V = in("V"), a = in("a"), b = in("b");
    double v0 = in_number("v0"), a0 = in_number("a0"), b0 = in_number("b0");
    size_t K = M.shape[0], h = M.shape[1], D = M.shape[2];
    double *o = out("value", 1, K, 1, 1);
    for (size_t k = 0; k < K; k++) {
        double *Vk = V.data + k * D * D, columns = trace(Vk, D, D + 1) / v0 - D + D * log(v0) - log_det(Vk, D);
        for (size_t i = 0; i < h; i++) {
            double *row = M.data + (k * h + i) * D, rate = b.data[k * h + i], shape = a.data[k];
            o[k] += (columns + shape / rate * dot(row, row, D) / v0) / 2 + gamma_kl_one(shape, rate, a0, b0);
        }
    }
}

static void categorical_entropy(void) {
    Array g = in("gamma");
    size_t K = g.shape[1];
    double *o = out("value", 1, g.shape[0], 1, 1);
    for (size_t i = 0; i < g.size; i++) if (g.data[i] > 0) o[i / K] -= g.data[i] * log(g.data[i]);
}

static double quadratic(const double *x, const double *S, size_t D) {
    double *Sx = numbers(D);
    for (size_t i = 0; i < D; i++) Sx[i] = dot(S + i * D, x, D);
    return dot(x, Sx, D);
}

static void gate_logits(void) {
    Array X = in("X"), mu = in("beta0_mu"), S = in("beta0_S");
    size_t N = X.shape[0], d = X.shape[1], J = mu.shape[0], D = mu.shape[1];
    double *psi = out("psi", 2, N, J, 1), *psi2 = out("psi2", 2, N, J, 1);
    for (size_t n = 0; n < N; n++) {
        double *x = padded(X.data + n * d, d);
        for (size_t j = 0; j < J; j++) {
            double mean = dot(mu.data + j * D, x, D);
            psi[n * J + j] = mean;
            psi2[n * J + j] = mean * mean + quadratic(x, S.data + j * D * D, D);
        }
    }
}

static void output_logits(void) {
    Array mu = in("mu"), Sigma = in("Sigma"), beta = in("beta1_mu"), S = in("beta1_S");
    size_t N = mu.shape[0], K = mu.shape[1], h = mu.shape[2], J = beta.shape[0], D = h + 1;
    double *psi = out("psi", 3, N, K, J), *psi2 = out("psi2", 3, N, K, J);
    for (size_t r = 0; r < N * K; r++) {
        double *x = padded(mu.data + r * h, h), *P = Sigma.data + r * h * h;
        for (size_t l = 0; l < J; l++) {
            double *w = beta.data + l * D, *C = S.data + l * D * D, mean = dot(w, x, D), second = mean * mean + quadratic(x, C, D);
            for (size_t i = 0; i < h; i++)
                for (size_t j = 0; j < h; j++) second += P[i * h + j] * (C[i * D + j] + w[i] * w[j]);
            psi[r * J + l] = mean;
            psi2[r * J + l] = second;
        }
    }
}

static void stick_log_bound(void) {
    Array psi = in("psi"), psi2 = in("psi2"), xi = in("xi"), b = in("b"), kappa = in("kappa");
    double *o = out("value", 1, psi.shape[0], 1, 1);
    for (size_t i = 0; i < psi.size; i++)
        o[i / psi.shape[1]] += kappa.data[i] * psi.data[i] - b.data[i] * (LOG2 + theta(xi.data[i]) * psi2.data[i] / 2 + tilt_kl(xi.data[i]));
}

/* ---- the protocol */

#define OPERATION(f) {#f, f}
static const struct { const char *name; void (*run)(void); } OPS[] = {
    OPERATION(stick_log_probs), OPERATION(stick_counts), OPERATION(stick_logits), OPERATION(log_cosh_half), OPERATION(pg_mean),
    OPERATION(pg_var), OPERATION(pg_kl), OPERATION(log_sigmoid_normal), OPERATION(stick_log_means), OPERATION(second_moment),
    OPERATION(padded_second_moment), OPERATION(gaussian_entropy), OPERATION(gaussian_kl), OPERATION(gamma_mean_log), OPERATION(gamma_kl),
    OPERATION(mng_kl), OPERATION(categorical_entropy), OPERATION(gate_logits), OPERATION(output_logits), OPERATION(stick_log_bound)};
static const size_t N_OPS = sizeof OPS / sizeof *OPS;

static void print_array(Array a) {
    if (a.rank) {
        printf("{\"shape\": [");
        for (int i = 0; i < a.rank; i++) printf("%s%zu", i ? ", " : "", a.shape[i]);
        fputs("], \"data\": [", stdout);
    }
    for (size_t i = 0; i < a.size; i++) {
        double x = a.data[i];
        printf(isfinite(x) ? "%s%.17g" : isnan(x) ? "%s\"nan\"" : x > 0 ? "%s\"inf\"" : "%s\"-inf\"", i ? ", " : "", x);
    }
    if (a.rank) printf("]}");
}

static void print_start(void) {
    printf("\"protocol\": 1, \"name\": \"plain C\", \"version\": \"1\", \"language\": \"C99\", \"profile\": {}, \"dtypes\": [\"f64\"], \"ops\": [");
    for (size_t op = 0; op < N_OPS; op++) printf("%s\"%s\"", op ? ", " : "", OPS[op].name);
    printf("]}\n");
}

static void print_outputs(void) {
    printf("\"out\": {");
    for (int i = 0; i < n_outputs; i++) {
        printf("%s\"%s\": ", i ? ", " : "", outputs[i].name);
        print_array(outputs[i].array);
    }
    printf("}}\n");
}

static double seq;

/* 1 after an answer, 0 if that was the last question; fail() leaves it before anything is printed */
static int answer(void) {
    question = read_value();
    if (question->kind != '{') fail("this is no question");
    Value *number = member(question, "seq");
    if (number) seq = number->number;
    const char *command = text_of(question, "cmd"), *name = text_of(question, "op");
    if (!strcmp(command, "stop")) return 0;
    size_t op = 0;
    int starts = !strcmp(command, "start");
    while (op < N_OPS && strcmp(name, OPS[op].name)) op++;
    if (!starts && op < N_OPS) OPS[op].run();
    printf("{\"seq\": %.0f, ", seq);
    if (starts) print_start();
    else if (op == N_OPS) printf("\"skipped\": \"not one of my operations\"}\n");
    else print_outputs();
    return 1;
}

static char *read_line(void) {
    static char *line;
    static size_t room;
    size_t length = 0;
    for (int c = getchar();; c = getchar()) {
        if (c == EOF && !length) return NULL;
        if (length + 1 >= room) line = resized(line, room = 2 * room + 256);
        if (c == EOF || c == '\n') break;
        line[length++] = (char)c;
    }
    line[length] = 0;
    return line;
}

int main(void) {
    while ((at = read_line())) {
        n_outputs = 0, seq = -1;
        if (setjmp(answer_with_error)) printf("{\"seq\": %.0f, \"errored\": \"%s\"}\n", seq, problem);
        else if (!answer()) break;
        fflush(stdout);
        free_all();
    }
    return 0;
}
