/* The stored records: data set, score, methods. Data: data_explorer.js. */
cmnWidgets.define("explorer", (box) => {
  const {node, set, show, choice, plot} = cmnWidgets, data = window.cmnData.explorer;
  const NAMES = {cavi: "CAVI", "mle-network": "MLE, network", "mle-exact": "MLE, exact", bbvi: "BBVI", gibbs: "Gibbs", nuts: "NUTS", hmc: "HMC"};
  const MARKS = {cavi: "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0", "mle-network": "M-4-4h8v8h-8z", "mle-exact": "M0-6l6 6l-6 6l-6-6z", bbvi: "M0-6l5 10h-10z",
    gibbs: "M0 6l5-10h-10z", nuts: "M-5-5l10 10M5-5l-10 10", hmc: "M-5 0h10M0-5v10"};
  const LOG = ["cpu_seconds"], FLOOR = {lpd: -2, waic: -2}, DIGITS = {cpu_seconds: 1};
  let name = Object.keys(data.sets)[0], score = "lpd";
  const on = new Set(data.methods);

  const controls = node(box, "div", {class: "widget-controls"});
  choice(controls, "data set", Object.keys(data.sets).map((s) => [s, s]), name, (v) => { name = v; draw(); });
  choice(controls, "score", Object.entries(data.scores).map(([s, [text]]) => [s, text]), score, (v) => { score = v; draw(); });
  const set1 = node(box, "fieldset", {class: "widget-methods"});
  node(set1, "legend", {}, "methods");
  for (const method of data.methods) {
    const label = node(set1, "label"), input = node(label, "input", {type: "checkbox", checked: ""});
    const key = node(label, "svg", {viewBox: "0 0 34 14", "aria-hidden": true, class: "key"});
    node(key, "path", {d: "M0 7h34", class: `curve m-${method}`});
    node(key, "path", {d: MARKS[method], class: `sign m-${method}`, transform: "translate(17 7)"});
    node(label, "span", {}, NAMES[method] || method);
    input.addEventListener("change", () => { on[input.checked ? "add" : "delete"](method); draw(); });
  }
  const panels = node(box, "div", {class: "widget-panels"}), more = node(box, "details"), table = node(node(more, "summary", {}, "the same numbers as a table").parentNode, "div", {tabindex: 0});

  /* {method: [[rows, mean, sd, seeds], ...]} of what is on */
  const shown = () => Object.fromEntries(Object.entries(data.sets[name][score] || {}).filter(([m]) => on.has(m)));
  const nice = (span) => { const p = 10 ** Math.floor(Math.log10(span / 4)); return [1, 2, 5, 10].map((v) => v * p).find((v) => span / v <= 5); };
  function draw() {
    const rows = shown(), all = Object.values(rows).flat(), log = LOG.includes(score), floor = FLOOR[score] ?? -Infinity;
    const turn = (v) => log ? Math.log10(Math.max(v, 1e-3)) : v, held = (v) => Math.max(turn(v), floor);
    const [title, better] = data.scores[score];
    panels.textContent = table.textContent = "";
    const ends = all.flatMap(([, m, sd]) => [held(m - (log ? 0 : sd || 0)), held(m + (sd || 0))]), sizes = [...new Set(Object.values(data.sets[name].accuracy).flat().map((r) => r[0]))].sort((a, b) => a - b);
    let low = Math.min(...ends, log ? 0 : Infinity), high = Math.max(...ends);
    if (!all.length) [low, high] = [0, 1];
    const step = log ? 1 : nice(high - low || 1);
    [low, high] = [Math.floor(low / step) * step, Math.ceil(high / step + 1e-9) * step];
    const yt = Array.from({length: Math.round((high - low) / step) + 1}, (_, i) => low + i * step), digits = Math.max(0, Math.ceil(-Math.log10(step) - 1e-9));
    const p = plot(panels, {label: `${title}, ${name}`, role: "img", w: panels.clientWidth > 560 ? 690 : 340, h: 300, log: true, m: [24, 14, 36, 48],
      x: [sizes[0] * 0.85, sizes[sizes.length - 1] * 1.18], y: [low, high], xt: sizes, yt, xl: "training rows", yl: `${title}; ${better} is better`,
      yf: (v) => log ? String(10 ** v) : show(v, digits)});
    Object.entries(rows).forEach(([method, points], i) => {
      const shift = 1 + 0.025 * (i - 2), x = (r) => r * shift;
      set(p.curve(`m-${method}`), {d: p.d(points.map(([r, m]) => [x(r), turn(m)]))});
      for (const [r, m, sd] of points) {
        if (sd) set(p.curve(`m-${method} bar`), {d: p.d([[x(r), turn(m - sd)], [x(r), turn(m + sd)]])});
        node(p.inside, "path", {d: m < floor ? "M0 0v-10M0 0l-4-5M0 0l4-5" : MARKS[method], class: `sign m-${method}`, transform: `translate(${p.X(x(r))} ${p.Y(held(m))})`});
      }
    });
    const t = node(table, "table"), head = node(node(t, "thead"), "tr"), body = node(t, "tbody");
    for (const word of ["training rows", ...Object.keys(rows).map((m) => NAMES[m] || m)]) node(head, "th", {scope: "col"}, word);
    for (const n of sizes) {
      const tr = node(body, "tr");
      node(tr, "th", {scope: "row"}, n);
      for (const points of Object.values(rows)) {
        const at = points.find((r) => r[0] === n), d = DIGITS[score] ?? 3;
        node(tr, "td", {}, at ? show(at[1], d) + (at[2] === null ? "" : ` \u00b1 ${show(at[2], d)}`) : "\u2013");
      }
    }
  }
  draw();
  return {values: () => ({name, score, shown: shown()})};
}, "data_explorer");
