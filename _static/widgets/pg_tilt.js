/* The Polya-Gamma tilt, and the parabola that touches log sigma(psi) at +-tilt: eq-pg-tilt, eq-pg-mean, eq-pg-bound, eq-pg-gap. */
cmnWidgets.define("pg_tilt", (box) => {
  const {node, set, show, slider, plot, handle} = cmnWidgets;
  let xi = 2.5, psi = 6.5;

  const logCosh = (c) => Math.log1p(2 * Math.sinh(c / 4) ** 2);                       // log cosh(c/2)
  const theta = (c) => c < 1e-4 ? 0.25 : Math.tanh(c / 2) / (2 * c);                  // E omega
  const variance = (c) => c < 0.05 ? 1 / 24 : (Math.sinh(c) - c) / (4 * c ** 3 * Math.cosh(c / 2) ** 2);
  const divergence = (c) => logCosh(c) - c * c / 2 * theta(c);                        // from the density without tilt
  const density = (omega, c) => {
    let sum = 0;
    for (let n = 0; n < 40; n++) sum += (n % 2 ? -1 : 1) * (2 * n + 1) * Math.exp(-((2 * n + 1) ** 2) / (8 * omega));
    return Math.exp(logCosh(c) - omega * c * c / 2) * sum / Math.sqrt(2 * Math.PI * omega ** 3);
  };
  const coin = (u) => u / 2 - Math.LN2 - logCosh(u);                                  // log sigma(u)
  const bound = (u, c) => u / 2 - Math.LN2 - logCosh(c) - theta(c) * (u * u - c * c) / 2;

  const controls = node(box, "div", {class: "widget-controls"});
  const tilt = slider(controls, "tilt \u03be", 0, 6, 0.1, xi, (v) => show(v, 1), (v) => { xi = v; draw(); });
  const panels = node(box, "div", {class: "widget-panels"});
  const left = plot(panels, {label: "Density of omega", role: "img", x: [0, 0.6], y: [0, 13], xt: [0, 0.2, 0.4, 0.6], yt: [0, 4, 8, 12],
    xl: "\u03c9", yl: "density of PG(1, \u03be)"});
  const right = plot(panels, {label: "log sigma and its bound", x: [-8, 8], y: [-8, 1], xt: [-8, -4, 0, 4, 8], yt: [-8, -6, -4, -2, 0],
    xl: "\u03c8", yl: "log \u03c3(\u03c8), and its bound (dashed)"});
  const omegas = Array.from({length: 240}, (_, i) => (i + 1) / 400), logits = Array.from({length: 161}, (_, i) => i / 10 - 8);
  const untilted = left.curve("thin"), tilted = left.curve("a");
  set(untilted, {d: left.d(omegas.map((w) => [w, density(w, 0)]))});
  const mean = node(left.svg, "path", {class: "ink"});
  node(left.svg, "text", {x: left.X(0.235), y: left.Y(2.75), class: "soft"}, "dashed: without tilt");
  const truth = right.curve("a"), parabola = right.curve("b");
  set(truth, {d: right.d(logits.map((u) => [u, coin(u)]))});
  const touch = [-1, 1].map(() => node(right.inside, "circle", {r: 5, class: "ink"}));
  const gap = right.curve("gap");
  const at = handle(right, {label: "logit psi at which the gap is read", name: "\u03c8", at: () => [psi, coin(psi)],
    text: () => `psi ${show(psi, 1)}, gap ${show(coin(psi) - bound(psi, xi), 3)} nats`, move: (x) => { psi = Math.round(x * 10) / 10; draw(); }});
  const said = node(box, "p", {class: "widget-said two"});

  function draw() {
    set(tilted, {d: left.d(omegas.map((w) => [w, density(w, xi)]))});
    const m = left.X(theta(xi)), low = left.Y(0);
    set(mean, {d: `M${m} ${low}l-5 10h10z`});
    set(parabola, {d: right.d(logits.map((u) => [u, bound(u, xi)]))});
    touch.forEach((dot, i) => { const u = (2 * i - 1) * xi; set(dot, {cx: right.X(u), cy: right.Y(coin(u))}); });
    set(gap, {d: right.d([[psi, coin(psi)], [psi, bound(psi, xi)]])});
    at();
    said.textContent = `mean of \u03c9 ${show(theta(xi), 4)} (triangle), sd ${show(Math.sqrt(variance(xi)), 4)}; divergence from the untilted density `
      + `${show(divergence(xi), 3)} nats. Gap at \u03c8 = ${show(psi, 1)}: ${show(coin(psi) - bound(psi, xi), 3)} nats.`;
  }
  draw();
  return {tilt, density, values: () => ({xi, psi, mean: theta(xi), variance: variance(xi), divergence: divergence(xi), coin: coin(psi),
    bound: bound(psi, xi), gap: coin(psi) - bound(psi, xi)})};
});
