// Ask an implementation in any language the cases of the suite: Node, and nothing else.
//
//     node runner.mjs [--level 0-2] [--op NAME] [--dtype f32] [--timeout 30] [--inaccurate pass] [--json] command [argument ...]
//
// What is asked and how it is judged is in FORMAT.md, the protocol in adapters/README.md. Nothing is converted: a case in another
// parametrisation than the adapter's is skipped. Exit code: 0 all that was asked is right, 1 something is not, 2 nothing was tested.
import { spawn } from 'node:child_process'
import { readFileSync, readdirSync } from 'node:fs'
import { createInterface } from 'node:readline'

const read = (name) => JSON.parse(readFileSync(new URL(`./cmn_conformance/${name}`, import.meta.url)))
const { ops, profile: choices } = read('ops.json'), OPS = Object.fromEntries(ops.map((op) => [op.name, op]))
const WORDS = { nan: NaN, inf: Infinity, '+inf': Infinity, '-inf': -Infinity }, COARSE = { f64: 1e-8, f32: 1e-3 }
const give = { level: '0-6', op: '', dtype: 'f64', timeout: '30', inaccurate: 'fail', json: false }, command = process.argv.slice(2)
const refuse = (why) => { console.error(`runner.mjs: ${why}`); process.exit(2) }
while (command[0]?.startsWith('--')) {
  const key = command.shift().slice(2)
  give[key] = key in give ? (key === 'json' ? true : command.shift()) : refuse(`no option --${key}`)
}
const [low, high = low] = give.level.split('-').map(Number), seconds = Number(give.timeout)
if (!command.length || !(low <= high) || !(seconds > 0) || !COARSE[give.dtype]) refuse('expected [--level 0-2] [--dtype f64|f32] [--timeout S] command')

// ---- values and verdicts

function written(value, kind) {                            // a whole number that is a float keeps its point: 2.0
  if (typeof value === 'object') return `{"shape": [${value.shape}], "data": [${value.data.map((x) => written(x, kind))}]}`
  return kind !== 'int' && Number.isInteger(value) ? value.toFixed(1) : JSON.stringify(value)
}
function flat(value) {                                     // number, {shape, data} or lists of lists -> {shape, data}
  if (Array.isArray(value)) {
    const parts = value.map(flat), inner = parts[0]?.shape ?? []
    if (parts.some((p) => String(p.shape) !== String(inner))) throw Error('lists of different lengths')
    return { shape: [value.length, ...inner], data: parts.flatMap((p) => p.data), lists: true }
  }
  const { shape, data } = value !== null && typeof value === 'object' ? value : { shape: [], data: [value] }
  const numbers = data.map((x) => (x === null ? NaN : typeof x === 'number' ? x : WORDS[String(x).toLowerCase()]))
  if (numbers.includes(undefined) || data.length !== shape.reduce((a, b) => a * b, 1)) throw Error('not an array of numbers')
  return { shape, data: numbers }
}
const norm = (list) => Math.hypot(...list)
function grade(op, name, value, expected, { rtol, atol }) {
  const got = flat(value), want = flat(expected), dims = OPS[op].out[name].shape, square = dims.length > 1 && dims.at(-1) === dims.at(-2)
  const axes = square || /^M[123]?$/.test(name) ? 2 : /(^|_)mu[123]?$/.test(name) ? 1 : 0, width = axes ? want.shape.slice(-axes).reduce((a, b) => a * b, 1) : 1
  if (got.lists && !got.data.length && !want.data.length) return 'passed'
  if (String(got.shape) !== String(want.shape)) return `shape ${got.shape}, expected ${want.shape}`
  const error = want.data.map((w, i) => (w === got.data[i] || (Number.isNaN(w) && Number.isNaN(got.data[i])) ? 0 : Math.abs(w - got.data[i])))
  const largest = Math.max(0, ...want.data.filter(Number.isFinite).map(Math.abs)), lost = rtol ? atol / rtol : 0
  const cancel = lost <= 1e3 * largest || !largest ? lost : 0, block = (list, i) => list.slice(i - (i % width), i - (i % width) + width)
  const right = (e, i) => e === 0 || e <= atol + rtol * Math.abs(want.data[i]) || (axes && norm(block(error, i)) <= rtol * norm(block(want.data, i)))
  const near = (e, i) => right(e, i) || e <= COARSE[give.dtype] * Math.max(Math.abs(want.data[i]) + cancel, axes ? norm(block(want.data, i)) : 0)
  const finite = (e, i) => e === 0 || (Number.isFinite(e) && Number.isFinite(want.data[i])), worst = error.reduce((a, e) => (e > a ? e : a), 0)
  return error.every((e, i) => finite(e, i) && right(e, i)) ? 'passed' : error.every((e, i) => finite(e, i) && near(e, i)) ? 'inaccurate' : `error ${worst}`
}
function judge(c, reply) {
  const kinds = ['out', 'skipped', 'errored'].filter((kind) => kind in reply)
  if (kinds.length !== 1) return ['errored', 'expected one of out, skipped, errored']
  if (kinds[0] !== 'out') return [kinds[0], String(reply[kinds[0]])]
  const grades = Object.keys(c.out).map((name) => {
    try { return name in reply.out ? grade(c.op, name, reply.out[name], c.out[name], c.tol[give.dtype][name]) : `no output ${name}` } catch (e) { return e.message }
  })
  const strict = c.flags.some((f) => f === 'SmallTilt' || f === 'CutSeries')      // it is there for lost digits: an inaccurate answer is wrong
  const wrong = grades.findIndex((g) => g !== 'passed' && (strict || g !== 'inaccurate'))
  return wrong >= 0 ? ['failed', `${Object.keys(c.out)[wrong]}: ${grades[wrong]}`] : [grades.includes('inaccurate') ? 'inaccurate' : 'passed', '']
}

// ---- the adapter

let child, lines, seq = 0, starts = 0
async function put(message, wait) {
  const late = new Promise((_, no) => { put.timer = setTimeout(() => no(Error(`no answer in ${wait} s (--timeout)`)), wait * 1000) })
  try {
    child.stdin.write(`{"seq": ${++seq}, ${message}}\n`)
    const { value, done } = await Promise.race([lines.next(), late])
    if (done) throw Error('the adapter ended')
    const reply = JSON.parse(value)
    if (reply.seq !== seq) throw Error(`an answer to question ${reply.seq}`)
    return reply
  } catch (error) { child.kill('SIGKILL'); child = null; return { errored: error.message } } finally { clearTimeout(put.timer) }
}
async function start() {
  child = spawn(command[0], command.slice(1), { stdio: ['pipe', 'pipe', 'inherit'] })
  child.on('error', () => {}).stdin.on('error', () => {})
  lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  starts++
  return put(`"cmd": "start", "protocol": 1, "dtype": "${give.dtype}", "suite": "${suite}", "ops": ${JSON.stringify(Object.keys(OPS))}`, 120)
}
const groups = readdirSync(new URL('./cmn_conformance/vectors/', import.meta.url)).filter((name) => name.endsWith('.json')).map((name) => read(`vectors/${name}`))
const suite = groups.map((g) => g.provenance.suite).sort((a, b) => a.localeCompare(b, 'en', { numeric: true })).at(-1)
const adapter = await start()
if (adapter.errored || 'cmd' in adapter || adapter.protocol !== 1 || !Array.isArray(adapter.ops)) refuse(`the adapter did not start: ${adapter.errored ?? 'no protocol 1, or no ops'}`)
if (!(adapter.dtypes ?? ['f64']).includes(give.dtype)) refuse(`the adapter does not offer ${give.dtype}`)
function other(c) {                                        // the keys of the profile in which this case is not the adapter's
  const asks = c.profile ?? {}, able = (k) => [adapter.profile?.[k] ?? choices[k].default].flat()
  return [...new Set([...(OPS[c.op].reads ?? []), ...Object.keys(asks).filter((k) => !choices[k].converted || !OPS[c.op].reads)])].filter((k) => !able(k).includes(asks[k] ?? choices[k].default))
}
const results = [], table = {}
for (const group of groups.sort((a, b) => a.level - b.level)) {
  for (const c of group.cases.filter((x) => !x.superseded_by && group.level >= low && group.level <= high && (!give.op || give.op === x.op))) {
    const row = (table[`L${group.level}`] ??= { asked: 0, passed: 0, inaccurate: 0, failed: 0, errored: 0, skipped: 0, undeclared: 0, of: 0 }), keys = other(c)
    if (keys.some((k) => !choices[k].converted) || (give.dtype === 'f32' && c.f64_only)) continue
    let verdict = adapter.ops.includes(c.op) ? keys.length ? 'skipped' : '' : 'undeclared', why = keys.join(', ')
    if (!verdict) {
      const given = Object.entries(c.in).map(([name, v]) => `"${name}": ${written(v, OPS[c.op].in[name].kind)}`), { id, op } = c
      const profile = Object.fromEntries(Object.keys(choices).map((k) => [k, c.profile?.[k] ?? choices[k].default]))
      if (!child && starts <= 20) await start()
      const rest = JSON.stringify({ cmd: 'run', id, op, dtype: give.dtype, profile, outputs: Object.keys(c.out) }).slice(1, -1)
      ;[verdict, why] = judge(c, child ? await put(`${rest}, "in": {${given}}`, seconds) : { errored: 'not asked: restarted too often' })
      row.asked++
    }
    row[verdict]++
    row.of++
    results.push({ id: c.id, op: c.op, level: group.level, verdict, message: why })
    if (/^(failed|inaccurate|errored)$/.test(verdict) && !give.json) console.log(`${verdict.toUpperCase()} ${c.id}  ${JSON.stringify(why)}\n  ${c.eq.link}\n  ${OPS[c.op].formula ?? OPS[c.op].definition}`)
  }
}
child?.stdin.end('{"cmd": "stop"}\n')
setTimeout(() => child?.kill('SIGKILL'), 2000).unref()
const count = (...kinds) => results.filter((r) => kinds.includes(r.verdict)).length
if (give.json) console.log(JSON.stringify({ suite, dtype: give.dtype, adapter, choices: Object.keys(choices), levels: table, results }))
else console.table(table)
process.exitCode = count('failed', 'errored') || (count('inaccurate') && give.inaccurate === 'fail') ? 1 : count('passed', 'inaccurate') ? 0 : 2
