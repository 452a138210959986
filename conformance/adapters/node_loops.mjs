// CAVI for conditional mixture networks in JavaScript: no package, levels 0 to 4.
//
//     python -m cmn_conformance run --command "node conformance/adapters/node_loops.mjs"
//
// The last forty lines are the whole protocol: one JSON object a line, in and out. Arrays are lists of lists here.

import readline from 'node:readline'

const { abs, exp, log, log1p, sqrt, tanh, sinh, cosh, max } = Math
const LOG2 = log(2), LOG2PI = log(2 * Math.PI)

// ---- lists

const range = (n) => Array.from({ length: n }, (_, i) => i)
const sum = (list) => {                                    // Neumaier's: the digits that a plain sum would lose are kept
  let total = 0, lost = 0
  for (const x of list) {
    const next = total + x
    if (Number.isFinite(next)) lost += abs(total) >= abs(x) ? (total - next) + x : (x - next) + total
    total = next
  }
  return total + lost
}
const dot = (u, v) => sum(u.map((x, i) => x * v[i]))
const times = (A, v) => A.map((row) => dot(row, v))
const outer = (u, v) => u.map((a) => v.map((b) => a * b))
const add = (A, B, weight = 1) => A.map((row, i) => row.map((x, j) => x + weight * B[i][j]))
const eye = (m, value = 1) => range(m).map((i) => range(m).map((j) => (i === j ? value : 0)))
const trace = (S) => sum(S.map((row, i) => row[i]))
const pad = (x) => [...x, 1]

// ---- level 0: special functions

const logSigmoid = (t) => (t > 0 ? -log1p(exp(-t)) : t - log1p(exp(t)))

function walk(stop, go) {
  const out = []
  let reach = 0
  stop.forEach((s, j) => { out.push(reach + s); reach += go[j] })
  return [...out, reach]
}

const stickRow = (row) => walk(row.map(logSigmoid), row.map((t) => logSigmoid(-t)))

function counts(w) {
  const b = range(max(w.length - 1, 0)).map((j) => sum(w.slice(j)))
  return [b, b.map((n, j) => w[j] - n / 2)]
}

function logSum(terms) {
  const top = terms.reduce((a, b) => max(a, b), -Infinity)
  return top === -Infinity ? top : top + log(sum(terms.map((t) => exp(t - top))))
}

function stickLogits(row) {
  return row.slice(0, -1).map((p, j) => {
    const later = logSum(row.slice(j + 1))
    return p === -Infinity && later === -Infinity ? 0 : p - later
  })
}

function logCoshHalf(c) {
  c = abs(c)
  return c < 1 ? log1p(2 * sinh(c / 4) ** 2) : c / 2 + log1p(exp(-c)) - LOG2
}

const theta = (c) => (abs(c) < 1e-150 ? 0.25 : tanh(c / 2) / (2 * c))

function variance(c) {
  c = abs(c)
  if (c < 1) {
    let term = 1 / 6, total = 0                            // c^(2m-2) / (2m+1)!
    for (let m = 1; m < 10; m++) { total += term; term *= c * c / ((2 * m + 2) * (2 * m + 3)) }
    return total / (4 * cosh(c / 2) ** 2)
  }
  const e = exp(-c)
  return (1 - e * e - 2 * c * e) / (2 * c ** 3 * (1 + e) ** 2)
}

function tiltKL(c) {
  c = abs(c)
  if (c >= 0.5) return logCoshHalf(c) - c / 4 * tanh(c / 2)
  const t = tanh(c / 2) ** 2
  return sum(range(13).map((i) => (i + 1) / (2 * (i + 2) * (2 * i + 3)) * t ** (i + 2)))
}

function logSigmoidNormal(m, v, cut = 40) {
  if (v === 0) return logSigmoid(m)
  if (m > 0) return log1p(-exp(logSigmoidNormal(-m, v)))
  const s = sqrt(v), wide = sqrt(2 * cut), r = Math.min(Math.PI / s, wide)
  const step = 2 * Math.PI * r / (cut + r * r / 2)
  const terms = []
  for (let i = Math.floor(-wide / step) - 1; i < (s + wide) / step + 1; i++) {
    const t = i * step
    terms.push(s * t - t * t / 2 + logSigmoid(-m - s * t))
  }
  return m + logSum(terms) + log(step) - LOG2PI / 2
}

// ---- linear algebra

function cholesky(P) {
  const C = eye(P.length, 0)
  P.forEach((row, i) => range(i + 1).forEach((j) => {
    const rest = row[j] - dot(C[i].slice(0, j), C[j].slice(0, j))
    C[i][j] = i === j ? sqrt(rest) : rest / C[j][j]
  }))
  return C
}

const logDet = (P) => 2 * sum(cholesky(P).map((row, i) => log(row[i])))

function inverse(P) {
  const m = P.length, C = cholesky(P), W = eye(m, 0)       // W = C^-1
  for (let j = 0; j < m; j++) {
    for (let i = j; i < m; i++) W[i][j] = ((i === j ? 1 : 0) - sum(range(i - j).map((k) => C[i][j + k] * W[j + k][j]))) / C[i][i]
  }
  return range(m).map((i) => range(m).map((j) => sum(range(m).map((k) => W[k][i] * W[k][j]))))
}

// ---- level 1: expectations, divergences, entropies

function digamma(x) {
  let shift = 0
  while (x < 10) { shift -= 1 / x; x += 1 }
  const u = 1 / (x * x)
  return shift + log(x) - 1 / (2 * x)
    - u * (1 / 12 - u * (1 / 120 - u * (1 / 252 - u * (1 / 240 - u * (1 / 132 - u * (691 / 32760 - u / 12))))))
}

function logGamma(x) {
  let shift = 1
  while (x < 10) { shift *= x; x += 1 }
  const u = 1 / (x * x)
  const series = (1 / 12 - u * (1 / 360 - u * (1 / 1260 - u * (1 / 1680 - u * (1 / 1188 - u * (691 / 360360 - u / 156)))))) / x
  return (x - 0.5) * log(x) - x + LOG2PI / 2 + series - log(shift)
}

const secondMoment = (mu, S) => add(S, outer(mu, mu))
const paddedSecondMoment = (mu, S) => [...secondMoment(mu, S).map((row, i) => [...row, mu[i]]), pad(mu)]
const entropy = (S) => S.length / 2 * (1 + LOG2PI) + logDet(S) / 2

function gaussianKL(mu, S, sigma) {
  const m = mu.length
  return ((trace(S) + dot(mu, mu)) / sigma ** 2 - m + 2 * m * log(sigma) - logDet(S)) / 2
}

const meanLog = (a, b) => digamma(a) - log(b)
const gammaKL = (a, b, a0, b0) => (a - a0) * digamma(a) - logGamma(a) + logGamma(a0) + a0 * (log(b) - log(b0)) + a * (b0 - b) / b

function mngKL(M, V, a, b, v0, a0, b0) {
  const D = V.length, row = trace(V) / v0 - D + D * log(v0) - logDet(V)
  return sum(M.map((m, i) => (row + a / b[i] * dot(m, m) / v0) / 2 + gammaKL(a, b[i], a0, b0)))
}

const categoricalEntropy = (row) => -sum(row.map((g) => (g > 0 ? g * log(g) : 0)))

function gateLogits(X, mu, S) {
  const E = mu.map((m, j) => secondMoment(m, S[j]))
  return { psi: X.map((x) => times(mu, pad(x))), psi2: X.map((x) => E.map((e) => dot(pad(x), times(e, pad(x))))) }
}

function outputLogits(mu, Sigma, beta, S) {
  const B = beta.map((m, l) => secondMoment(m, S[l]))
  const psi2 = (x, P) => { const E = paddedSecondMoment(x, P); return B.map((b) => sum(b.map((row, i) => dot(row, E[i])))) }
  return { psi: mu.map((row) => row.map((x) => times(beta, pad(x)))), psi2: mu.map((row, n) => row.map((x, k) => psi2(x, Sigma[n][k]))) }
}

const coins = (psi, psi2, xi, b, kappa) =>
  sum(psi.map((p, j) => kappa[j] * p - b[j] * (LOG2 + theta(xi[j]) * psi2[j] / 2 + tiltKL(xi[j]))))

// ---- level 2: one factor's update; s is the whole state

const label = (y, sticks) => counts(range(sticks + 1).map((c) => Number(c === y)))

function updateX(s) {
  const B = s.beta1_mu.map((m, l) => secondMoment(m, s.beta1_S[l])), h = s.M[0].length
  const mu = [], Sigma = []
  s.X.forEach((x, n) => {
    const [b, kappa] = label(s.y[n], B.length)
    mu.push([])
    Sigma.push([])
    s.M.forEach((M, k) => {
      const tau = s.b[k].map((r) => s.a[k] / r), mean = times(M, pad(x))
      let P = range(h).map((i) => range(h).map((j) => (i === j ? tau[i] : 0))), eta = mean.map((v, i) => tau[i] * v)
      B.forEach((Bl, l) => {
        const omega = b[l] * theta(s.xi1[n][k][l])
        P = add(P, Bl.slice(0, h).map((row) => row.slice(0, h)), omega)
        eta = eta.map((e, i) => e + kappa[l] * s.beta1_mu[l][i] - omega * Bl[i][h])
      })
      const S = inverse(P)
      Sigma[n].push(S)
      mu[n].push(times(S, eta))
    })
  })
  return { mu, Sigma }
}

const updateOmega1 = (s) => ({ xi1: outputLogits(s.mu, s.Sigma, s.beta1_mu, s.beta1_S).psi2.map((t) => t.map((row) => row.map(sqrt))) })
const updateOmega0 = (s) => ({ xi0: gateLogits(s.X, s.beta0_mu, s.beta0_S).psi2.map((row) => row.map(sqrt)) })

function updateZ(s) {
  const T = outputBound(s), E = expertBound(s), G = gateBound(s)
  return { gamma: T.map((row, n) => {
    const score = row.map((t, k) => t + E[n][k] + G[n][k] + entropy(s.Sigma[n][k])), total = logSum(score)
    return score.map((v) => exp(v - total))
  }) }
}

function solve(terms, size, sigma) {                       // terms: [weight of E, E, pull on x, x]
  let P = eye(size, 1 / sigma ** 2), linear = range(size).map(() => 0)
  for (const [weight, E, pull, x] of terms) { P = add(P, E, weight); linear = linear.map((v, i) => v + pull * x[i]) }
  const S = inverse(P)
  return [times(S, linear), S]
}

function updateBeta1(s) {
  const sticks = s.xi1[0][0].length
  const out = range(sticks).map((l) => solve(s.y.flatMap((y, n) => {
    const [b, kappa] = label(y, sticks)
    return s.gamma[n].map((g, k) => [g * b[l] * theta(s.xi1[n][k][l]), paddedSecondMoment(s.mu[n][k], s.Sigma[n][k]),
      g * kappa[l], pad(s.mu[n][k])])
  }), s.M[0].length + 1, s.sigma1))
  return { beta1_mu: out.map(([m]) => m), beta1_S: out.map(([, S]) => S) }
}

function updateBeta0(s) {
  const out = range(s.gamma[0].length - 1).map((j) => solve(s.X.map((x, n) => {
    const [b, kappa] = counts(s.gamma[n])
    return [b[j] * theta(s.xi0[n][j]), outer(pad(x), pad(x)), kappa[j], pad(x)]
  }), s.X[0].length + 1, s.sigma0))
  return { beta0_mu: out.map(([m]) => m), beta0_S: out.map(([, S]) => S) }
}

function updateExperts(s) {
  const Xt = s.X.map(pad), D = Xt[0].length, M = [], V = [], a = [], b = []
  s.a.forEach((_, k) => {
    const gamma = s.gamma.map((row) => row[k])
    V.push(inverse(Xt.reduce((P, x, n) => add(P, outer(x, x), gamma[n]), eye(D, 1 / s.v0))))
    a.push(s.a0 + sum(gamma) / 2)
    M.push([])
    b.push([])
    s.M[k].forEach((_, i) => {
      let m = range(D).map(() => 0)
      const rest = () => Xt.map((x, n) => s.mu[n][k][i] - dot(m, x))
      for (let pass = 0; pass < 2; pass++) {               // the second pass, about the first mean, has all digits
        const r = rest(), pull = range(D).map((d) => sum(r.map((v, n) => gamma[n] * v * Xt[n][d])) - m[d] / s.v0)
        m = m.map((v, d) => v + dot(V[k][d], pull))
      }
      const squares = sum(rest().map((r, n) => gamma[n] * (r * r + s.Sigma[n][k][i][i])))
      M[k].push(m)
      b[k].push(s.b0 + (squares + dot(m, m) / s.v0) / 2)
    })
  })
  return { M, V, a, b }
}

// ---- level 3: terms of the bound

function outputBound(s) {
  const { psi, psi2 } = outputLogits(s.mu, s.Sigma, s.beta1_mu, s.beta1_S)
  return psi.map((row, n) => row.map((p, k) => coins(p, psi2[n][k], s.xi1[n][k], ...label(s.y[n], p.length))))
}

function expertBound(s) {
  return s.X.map((x, n) => s.M.map((M, k) => {
    const xt = pad(x), mean = times(M, xt), spread = dot(xt, times(s.V[k], xt))
    return sum(s.b[k].map((r, i) => meanLog(s.a[k], r) - LOG2PI - spread
      - s.a[k] / r * ((s.mu[n][k][i] - mean[i]) ** 2 + s.Sigma[n][k][i][i]))) / 2
  }))
}

function gateBound(s) {
  const { psi, psi2 } = gateLogits(s.X, s.beta0_mu, s.beta0_S)
  return psi.map((p, n) => range(p.length + 1).map((k) => coins(p, psi2[n], s.xi0[n], ...label(k, p.length))))
}

const mean = (s, table) => sum(s.gamma.map((g, n) => dot(g, table[n])))
const TERMS = {
  elbo_output: (s) => mean(s, outputBound(s)),
  elbo_expert: (s) => mean(s, expertBound(s)),
  elbo_latent_entropy: (s) => mean(s, s.Sigma.map((row) => row.map(entropy))),
  elbo_gate: (s) => mean(s, gateBound(s)),
  elbo_assignment_entropy: (s) => sum(s.gamma.map(categoricalEntropy)),
  kl_beta1: (s) => sum(s.beta1_mu.map((m, l) => gaussianKL(m, s.beta1_S[l], s.sigma1))),
  kl_beta0: (s) => sum(s.beta0_mu.map((m, j) => gaussianKL(m, s.beta0_S[j], s.sigma0))),
  kl_experts: (s) => sum(s.M.map((M, k) => mngKL(M, s.V[k], s.a[k], s.b[k], s.v0, s.a0, s.b0)))
}
const elbo = (s) => sum(Object.entries(TERMS).map(([name, term]) => (name.startsWith('kl') ? -term(s) : term(s))))

// ---- level 4: sweeps

function sweeps(s) {
  const trace = []
  for (let t = 0; t < s.n_sweeps; t++) {
    for (const update of [updateX, updateOmega1, updateOmega0, updateZ, updateBeta1, updateBeta0, updateExperts]) s = { ...s, ...update(s) }
    trace.push(elbo(s))
  }
  return { ...s, elbo: trace }
}

// ---- the operations: the arguments of a case -> its outputs

const table = (f, name) => (g) => ({ [name]: g.b.map((b, i) => b * f(g.c[i])) })
const rows = (f, name, ...args) => (g) => ({ [name]: g[args[0]].map((_, i) => f(...args.map((a) => g[a][i]))) })
const value = (f) => (g) => ({ value: f(g) })
const OPS = {
  stick_log_probs: rows(stickRow, 'log_probs', 'psi'),
  stick_counts: (g) => ({ b: g.weights.map((w) => counts(w)[0]), kappa: g.weights.map((w) => counts(w)[1]) }),
  stick_logits: rows(stickLogits, 'psi', 'log_probs'),
  log_cosh_half: rows(logCoshHalf, 'value', 'c'),
  pg_mean: table(theta, 'mean'),
  pg_var: table(variance, 'var'),
  pg_kl: table(tiltKL, 'kl'),
  log_sigmoid_normal: rows((m, v) => logSigmoidNormal(m, v), 'log_mean', 'm', 'v'),
  stick_log_means: rows((m, v) => walk(m.map((x, j) => logSigmoidNormal(x, v[j])), m.map((x, j) => logSigmoidNormal(-x, v[j]))), 'log_probs', 'm', 'v'),
  second_moment: value((g) => secondMoment(g.mu, g.S)),
  padded_second_moment: value((g) => paddedSecondMoment(g.mu, g.S)),
  gaussian_entropy: value((g) => entropy(g.S)),
  gaussian_kl: value((g) => gaussianKL(g.mu, g.S, g.sigma)),
  gamma_mean_log: rows(meanLog, 'value', 'a', 'b'),
  gamma_kl: value((g) => g.a.map((a, i) => gammaKL(a, g.b[i], g.a0, g.b0))),
  mng_kl: value((g) => g.M.map((M, k) => mngKL(M, g.V[k], g.a[k], g.b[k], g.v0, g.a0, g.b0))),
  categorical_entropy: rows(categoricalEntropy, 'value', 'gamma'),
  gate_logits: (g) => gateLogits(g.X, g.beta0_mu, g.beta0_S),
  output_logits: (g) => outputLogits(g.mu, g.Sigma, g.beta1_mu, g.beta1_S),
  stick_log_bound: rows(coins, 'value', 'psi', 'psi2', 'xi', 'b', 'kappa'),
  update_x: updateX,
  update_omega1: updateOmega1,
  update_omega0: updateOmega0,
  update_z: updateZ,
  update_beta1: updateBeta1,
  update_beta0: updateBeta0,
  update_experts: updateExperts,
  ...Object.fromEntries(Object.entries({ ...TERMS, elbo }).map(([name, term]) => [name, value(term)])),
  sweeps
}

// ---- the protocol

const WORDS = { nan: NaN, inf: Infinity, '-inf': -Infinity }

function nested(item) {                                    // {shape, data} -> lists of lists
  if (typeof item === 'string') return WORDS[item]
  if (typeof item !== 'object') return item
  let place = 0
  const build = (shape) => (shape.length ? range(shape[0]).map(() => build(shape.slice(1))) : nested(item.data[place++]))
  return build(item.shape)
}

function plain(item) {
  if (Array.isArray(item)) return item.map(plain)
  return Number.isFinite(item) ? item : Number.isNaN(item) ? 'nan' : item > 0 ? 'inf' : '-inf'
}

function answer(question) {
  if (question.cmd === 'start') {
    return { protocol: 1, name: 'node loops', version: '1', language: `JavaScript, Node ${process.versions.node}`, profile: {},
      dtypes: ['f64'], ops: Object.keys(OPS) }
  }
  try {
    const given = Object.fromEntries(Object.entries(question.in).map(([name, item]) => [name, nested(item)]))
    const out = OPS[question.op](given)
    return { out: Object.fromEntries(question.outputs.map((name) => [name, plain(out[name])])) }
  } catch (error) {
    return { errored: String(error) }
  }
}

for await (const line of readline.createInterface({ input: process.stdin })) {
  const question = JSON.parse(line)
  if (question.cmd === 'stop') process.exit()
  process.stdout.write(JSON.stringify({ seq: question.seq, ...answer(question) }) + '\n')
}
