/* Three classes, two logits, and the order of the sticks: eq-stick-probs, eq-stick-inverse. */
cmnWidgets.define("simplex", (box) => {
  const {node, set, show, clamp, slider, choice, plot, handle} = cmnWidgets;
  const ROOT = Math.sqrt(3) / 2, CORNERS = [[0, 0], [1, 0], [0.5, ROOT]], FAR = 8;
  let order = [0, 1, 2], psi = [0.5, 1];

  const sigma = (u) => 1 / (1 + Math.exp(-u));
  /* probabilities of classes 0, 1, 2 */
  const chances = (u) => {
    const pi = [];
    pi[order[0]] = sigma(u[0]);
    pi[order[1]] = sigma(-u[0]) * sigma(u[1]);
    pi[order[2]] = sigma(-u[0]) * sigma(-u[1]);
    return pi;
  };
  const logits = (pi) => {
    const [a, b, c] = order.map((k) => pi[k]);
    return [Math.log(a / (b + c)), Math.log(b / c)].map((u) => clamp(u, -FAR, FAR));
  };
  const place = (pi) => [0, 1].map((i) => pi.reduce((sum, p, k) => sum + p * CORNERS[k][i], 0));
  const chancesAt = ([x, y]) => {
    const top = y / ROOT, right = x - top / 2, pi = [1 - top - right, right, top].map((p) => Math.max(p, 1e-3));
    const sum = pi[0] + pi[1] + pi[2];
    return pi.map((p) => p / sum);
  };

  const first = node(box, "div", {class: "widget-controls"}), controls = node(box, "div", {class: "widget-controls"});
  const orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
  choice(first, "order of the classes", orders.map((o) => [o.join(""), o.join(", then ")]), "012", (v) => {
    const pi = chances(psi);
    order = [...v].map(Number);
    psi = logits(pi);
    draw();
  });
  const sliders = [0, 1].map((j) => slider(controls, `logit \u03c8${"\u2080\u2081"[j]}`, -FAR, FAR, 0.1, psi[j], (v) => show(v, 1),
    (v) => { psi[j] = v; draw(j); }));
  const panels = node(box, "div", {class: "widget-panels"});
  const left = plot(panels, {label: "Triangle of three classes", x: [-0.04, 1.04], y: [-0.02, ROOT], h: 300, m: [24, 16, 22, 16]});
  const lines = ["level", "level thin", "level zero", "level thin zero"].map(left.curve);
  set(left.curve("edge"), {d: `${left.d(CORNERS)}Z`});
  CORNERS.forEach(([x, y], k) => node(left.svg, "text", {x: left.X(x), y: left.Y(y) + (k < 2 ? 18 : -9), "text-anchor": "middle", class: "name"},
    `class ${k}`));
  const point = handle(left, {label: "distribution over three classes", at: () => place(chances(psi)), step: 0.02,
    text: () => chances(psi).map((p, k) => `class ${k} ${show(p)}`).join(", "), move: (x, y) => { psi = logits(chancesAt([x, y])); draw(); }});
  const right = plot(panels, {label: "The stick, broken twice", role: "img", x: [0, 1], y: [0, 3], h: 270, m: [4, 12, 4, 12]});

  const said = node(box, "p", {class: "widget-said"});

  /* one row of the stick: pieces [from, to, class or -1] */
  const row = (y, title, pieces) => {
    node(right.inside, "text", {x: right.X(0), y: right.Y(y + 0.75)}, title);
    for (const [from, to, k] of pieces) {
      const x = right.X(from), width = Math.max(right.X(to) - x, 0.5), box = {x, width, y: right.Y(y + 0.65), height: 36};
      node(right.inside, "rect", {...box, class: k < 0 ? "rest" : `class${k}`});
      const text = k < 0 ? "left" : `${k}: ${show(to - from)}`;
      const fits = width > 8 * text.length ? text : width > 12 && k >= 0 ? k : "";
      node(right.inside, "text", {x: x + width / 2, y: right.Y(y + 0.65) + 23, "text-anchor": "middle"}, fits);
    }
  };
  function draw(moved = -1) {
    sliders.forEach((s, j) => { if (j !== moved) s.value = psi[j]; });
    const pi = chances(psi), [a, b, c] = order, one = pi[a], two = one + pi[b];
    const span = (u) => left.d(u.map((v) => place(chances(v)))), levels = [-4, -2, -1, 1, 2, 4];
    const rows = (u) => span([[u, -30], [u, 30]]), rays = (u) => span([[-30, u], [30, u]]);
    [levels.map(rows), levels.map(rays), [rows(0)], [rays(0)]].forEach((d, i) => set(lines[i], {d: d.join("")}));
    point();
    right.inside.textContent = "";
    row(2, "a stick of length 1", [[0, 1, -1]]);
    row(1, `take \u03c3(\u03c8\u2080) = ${show(sigma(psi[0]))} of it: class ${a}`, [[0, one, a], [one, 1, -1]]);
    said.textContent = pi.map((p, k) => `class ${k}: ${show(p, 3)}`).join(", ");
    row(0, `take \u03c3(\u03c8\u2081) = ${show(sigma(psi[1]))} of what is left: class ${b}`, [[0, one, a], [one, two, b], [two, 1, c]]);
  }
  draw();
  return {values: () => ({order: [...order], psi: [...psi], probs: chances(psi)})};
});
