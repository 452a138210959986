/* One fit, sweep by sweep: who wins where, and the terms of the bound (eq-elbo). Data: data_climb.js. */
cmnWidgets.define("climb", (box) => {
  const {node, set, show, slider, choice, plot} = cmnWidgets, data = window.cmnData.climb, {frames, side, reach} = data;
  const NAMES = {output: "outputs", expert: "experts' density", "latent entropy": "entropy of x\u2081", gate: "gate",
    "assignment entropy": "entropy of z", beta1: "\u2212 KL of \u03b2\u2081", beta0: "\u2212 KL of \u03b2\u2080", experts: "\u2212 KL of experts"};
  const MARKS = ["m-3.4 0a3.4 3.4 0 1 0 6.8 0a3.4 3.4 0 1 0-6.8 0", "m-3.3-3.3h6.6v6.6h-6.6z", "m0-4.4l4 7.5h-8z", "m0-4.7l4.7 4.7l-4.7 4.7l-4.7-4.7z",
    "m0 4.4l4-7.5h-8z"];
  let frame = frames.length - 1, part = "classes";

  const unpacked = (text) => text.replace(/([A-Z])(\d*)/g, (_, k, n) => k.repeat(n || 1));
  const total = (f) => f.terms.reduce((sum, v) => sum + v, 0);
  const controls = node(box, "div", {class: "widget-controls"});
  slider(controls, "sweep", 0, frames.length - 1, 1, frame, (v) => String(frames[v].sweep), (v) => { frame = v; draw(); });
  choice(controls, "regions of the", [["classes", "likeliest class"], ["experts", "likeliest expert"]], part, (v) => { part = v; draw(); });
  const panels = node(box, "div", {class: "widget-panels"}), range = [-reach, reach];
  const map = plot(panels, {label: "Map of the inputs", role: "img", x: range, y: range, xt: [-2, 0, 2], yt: [-2, 0, 2], h: 335, m: [22, 6, 36, 28],
    xl: "first input", yl: "second input"});
  const regions = node(map.inside, "g");
  MARKS.forEach((mark, c) => node(map.inside, "path", {class: `class${c} datum`,
    d: data.rows.filter((r) => r[2] === c).map(([x, y]) => `M${map.X(x).toFixed(1)} ${map.Y(y).toFixed(1)}${mark}`).join("")}));
  const words = node(map.inside, "g");
  const right = node(panels, "div", {class: "widget-stack"});
  const totals = frames.map(total), low = Math.floor(Math.min(...totals.slice(1)) / 500) * 500;
  const climb = plot(right, {label: "The bound against sweeps", role: "img", x: [1, 101], y: [low, 0], log: true, h: 150, m: [22, 10, 34, 48],
    xt: [1, 2, 4, 11, 31, 101], xf: (v) => v - 1, yt: [low, low / 2, 0], xl: "sweep", yl: "the bound, nats"});
  set(climb.curve("a"), {d: climb.d(frames.map((f, i) => [f.sweep + 1, totals[i]]))});
  const here = node(climb.svg, "circle", {r: 5, class: "ink"});
  const most = Math.max(...frames.slice(1).flatMap((f) => f.terms.map(Math.abs)));
  const bars = plot(right, {label: "Terms of the bound", role: "img", x: [-most, most], y: [8, 0], h: 180, m: [4, 52, 4, 118]});

  /* the cells of each winner as one path, and the cell farthest from its border */
  const areas = (text) => {
    const depth = [], found = {}, at = (r, c) => (r < 0 || c < 0 || r >= side || c >= side ? -1 : r * side + c);
    const cells = (i, step) => [[0, step], [step, 0], [step, step], [step, -step]].map(([a, b]) => at((i / side | 0) + a, i % side + b));
    for (const step of [-1, 1]) {
      for (let n = 0; n < text.length; n++) {
        const i = step < 0 ? n : text.length - 1 - n;
        const near = Math.min(...cells(i, step).map((j) => (j < 0 || text[j] !== text[i] ? 0 : depth[j])));
        depth[i] = Math.min(depth[i] ?? 99, near + 1);
      }
    }
    for (let i = 0; i < text.length;) {
      const k = text[i], first = i, area = found[k] ||= {runs: [], depth: 0};
      do {
        if (depth[i] > area.depth) Object.assign(area, {depth: depth[i], spot: [i / side | 0, i % side]});
        i++;
      } while (i % side && text[i] === k);
      area.runs.push([first / side | 0, first % side, i - first]);
    }
    return found;
  };
  function draw() {
    const f = frames[frame], cell = 2 * reach / side;
    const X = (c) => map.X(c * cell - reach), Y = (r) => map.Y(reach - r * cell), w = X(1) - X(0), h = Y(1) - Y(0);
    regions.textContent = words.textContent = "";
    for (const [k, {runs, spot, depth}] of Object.entries(areas(unpacked(f[part])))) {
      const n = k.charCodeAt(0) - 65, d = runs.map(([r, c, l]) => `M${X(c).toFixed(1)} ${Y(r).toFixed(1)}h${(l * w).toFixed(1)}v${h.toFixed(1)}h${(-l * w).toFixed(1)}z`);
      node(regions, "path", {d: d.join(""), class: `region ${part === "classes" ? "class" : "expert"}${n % 8}`});
      if (depth > 1) node(words, "text", {x: X(spot[1] + 0.5), y: Y(spot[0] + 0.5) + 6, class: "halo"}, n);
    }
    set(here, {cx: climb.X(f.sweep + 1), cy: climb.Y(Math.max(low, totals[frame]))});
    bars.inside.textContent = bars.axes.textContent = "";
    data.terms.forEach((name, i) => {
      const v = f.terms[i], y = bars.Y(i) + 4, zero = bars.X(0), end = bars.X(v);
      node(bars.inside, "rect", {x: Math.min(zero, end), y, width: Math.abs(end - zero), height: 14, class: v < 0 ? "class1" : "class0"});
      node(bars.axes, "text", {x: 2, y: y + 11}, NAMES[name]);
      node(bars.axes, "text", {x: 338, y: y + 11, "text-anchor": "end"}, show(v, 0));
    });
    node(bars.axes, "path", {d: `M${bars.X(0)} 4V176`});
    said.textContent = `Sweeps done: ${f.sweep}. The bound: ${show(total(f), 1)} nats${totals[frame] < low ? ", below the picture" : ""}.`;
  }
  const said = node(box, "p", {class: "widget-said"});
  draw();
  return {values: () => ({sweep: frames[frame].sweep, terms: frames[frame].terms, bound: total(frames[frame]), part, winners: unpacked(frames[frame][part])})};
}, "data_climb");
