/* A gate of one line between two experts, and the responsibilities: eq-gate-logits, eq-gate-bound, eq-gate-S, eq-gate-mu. */
cmnWidgets.define("gate_line", (box) => {
  const {node, set, show, clamp, slider, plot, handle} = cmnWidgets;
  const MIDDLE = [[-1.2, -0.6], [1.3, 0.7]];    // the home of each expert
  const ROWS = ("-21 -13,-19 3,-17 -4,-15 -16,-14 9,-12 -9,-11 1,-9 -18,-8 -5,-6 6,-4 -12,0 0,22 14,20 -2,18 6,16 18,14 -8,13 9,11 1,9 15,8 4,7 -6,"
    + "4 12,1 8").split(",").map((r) => r.split(" ").map((v) => v / 10));
  let ends = [[-0.9, 2], [-0.1, -2]], steep = 1.5, seen = 11, S = [0.05, 0, 0, 0, 0.05, 0, 0, 0, 0.05];

  const dot = (a, b) => b.reduce((sum, v, i) => sum + v * a[i], 0);
  const times = (m, v) => [0, 3, 6].map((i) => dot(m.slice(i, i + 3), v));
  const theta = (c) => Math.tanh(c / 2) / (2 * c);    // no tilt is 0
  /* mean of the coefficients: the logit is 0 on the line, and positive on the side of expert 0 */
  const mu = () => {
    const [[ax, ay], [bx, by]] = ends, size = steep / Math.hypot(ax - bx, ay - by), u = (by - ay) * size, v = (ax - bx) * size;
    return [u, v, -u * ax - v * ay];
  };
  const experts = ([x, y]) => MIDDLE.map(([a, b]) => -((x - a) ** 2 + (y - b) ** 2) / 2);
  const row = (r) => {
    const x = [...r, 1], m = dot(mu(), x), tilt = Math.sqrt(m * m + dot(x, times(S, x)));
    const cost = Math.log(2 * Math.cosh(tilt / 2)), gate = [m / 2 - cost, -m / 2 - cost];
    return {x, tilt, gate, gamma: share(experts(r).map((e, k) => e + gate[k]))};
  };
  const share = ([a, b]) => 1 / (1 + Math.exp(b - a));

  const controls = node(box, "div", {class: "widget-controls"}), panels = node(box, "div", {class: "widget-panels"});
  const slope = slider(controls, "steepness", 0.1, 8, 0.1, steep, (v) => show(v, 1), (v) => { steep = v; draw(); });
  const which = slider(controls, "row looked at", 0, ROWS.length - 1, 1, seen, (v) => String(v), (v) => { seen = v; draw(); });
  node(controls, "button", {type: "button"}, "one update of the line").onclick = update;
  const xt = [-2, 0, 2], left = plot(panels, {label: "Rows and the line of the gate", x: [-2.6, 2.6], y: [-2.4, 2.4], xt, yt: xt, h: 310,
    xl: "first input", yl: "second input"});
  const sides = [0, 1].map((k) => node(left.inside, "path", {class: `region class${k}`})), line = left.curve("edge"), soft = left.curve("thin");
  const points = ROWS.map(([x, y], n) => {
    const g = node(left.inside, "g", {transform: `translate(${left.X(x)} ${left.Y(y)})`, class: "clock"});
    g.onclick = () => { which.value = seen = n; draw(); };
    return [node(g, "circle", {r: 7}), node(g, "path")];
  });
  const names = [0, 1].map((k) => node(left.svg, "text", {class: "on", "text-anchor": "middle"}, `expert ${k}`));
  const grips = [0, 1].map((i) => handle(left, {label: `end ${i} of the line`, at: () => ends[i],
    text: () => ends[i].map((v) => show(v, 1)).join(", "),
    move: (x, y) => {
      const [u, v] = ends[1 - i];
      if (Math.hypot(x - u, y - v) > 0.3) { ends[i] = [x, y]; draw(); }
    }}));
  const right = plot(panels, {label: "One row", role: "img", x: [0, 1], y: [0, 3], h: 310, m: [24, 12, 20, 12]});

  /* the best q(beta_0) for the responsibilities and tilts on show */
  function update() {
    const P = [0.04, 0, 0, 0, 0.04, 0, 0, 0, 0.04], linear = [0, 0, 0];
    for (const {x, tilt, gamma} of ROWS.map(row)) {
      P.forEach((_, i) => { P[i] += theta(tilt) * x[i / 3 | 0] * x[i % 3]; });
      x.forEach((v, i) => { linear[i] += (gamma - 0.5) * v; });
    }
    const [a, b, c, , e, f, , , i] = P, A = e * i - f * f, B = c * f - b * i, C = b * f - c * e, det = a * A + b * B + c * C;
    S = [A, B, C, B, a * i - c * c, b * c - a * f, C, b * c - a * f, a * e - b * b].map((v) => v / det);
    const [u, v, w] = times(S, linear), norm = u * u + v * v;
    steep = Math.sqrt(norm);
    const cx = -u * w / norm, cy = -v * w / norm, far = clamp(1.9 * steep / Math.max(Math.abs(u), Math.abs(v)), 1, 2.2);
    ends = [far, -far].map((d) => [cx + d * v / steep, cy - d * u / steep]);
    draw();
  }
  function draw() {
    slope.value = steep;
    const m = mu(), [x, y] = ends[0], u = m[0] / steep, v = m[1] / steep, along = (d, t) => [x + d * u - t * v, y + d * v + t * u];
    set(line, {d: left.d([along(0, -9), along(0, 9)])});
    [9, -9].forEach((d, k) => set(sides[k], {d: `${left.d([along(0, -9), along(0, 9), along(d, 9), along(d, -9)])}Z`}));
    set(soft, {d: [-1, 1].map((s) => s * Math.log(9) / steep).map((d) => left.d([along(d, -9), along(d, 9)])).join("")});
    const spots = [[-2, 2.1], [2, 2.1], [2, -2.2], [-2, -2.2]].sort((p, q) => dot(m, q) - dot(m, p));
    names.forEach((t, k) => set(t, {x: left.X(spots[3 * k][0]), y: left.Y(spots[3 * k][1])}));
    ROWS.forEach((r, n) => {
      const turn = clamp(row(r).gamma, 1e-4, 1 - 1e-4) * 2 * Math.PI;
      set(points[n][1], {d: `M0 0V-7A7 7 0 ${turn > Math.PI ? 1 : 0} 1 ${7 * Math.sin(turn)} ${-7 * Math.cos(turn)}Z`});
      set(points[n][0], {class: n === seen ? "seen" : ""});
    });
    grips.forEach((place) => place());
    right.inside.textContent = "";
    const {gate, gamma} = row(ROWS[seen]);
    const bars = {"what the gate says": share(gate), "what the experts say": share(experts(ROWS[seen])), "responsibility: both, normalised": gamma};
    Object.entries(bars).forEach(([text, p], i) => {
      const y = 50 + 85 * i, write = (x, down, t, anchor = "start") => node(right.inside, "text", {x, y: y + down, "text-anchor": anchor}, t);
      write(12, -10, text);
      [[12, 316 * p], [12 + 316 * p, 316 * (1 - p)]].forEach(([x, width], k) => node(right.inside, "rect", {x, y, width, height: 34, class: `class${k}`}));
      write(18, 22, `0: ${show(p)}`);
      write(322, 22, `1: ${show(1 - p)}`, "end");
    });
  }
  draw();
  return {values: () => ({mu: mu(), S, seen, rows: ROWS, experts: ROWS.map(experts), ...Object.fromEntries(["gate", "gamma", "tilt"].map((k) => [k, ROWS.map((r) => row(r)[k])]))})};
});
