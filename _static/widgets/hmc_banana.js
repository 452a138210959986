/* A leapfrog trajectory on a banana: eq-hmc-energy, eq-hmc-leapfrog, eq-hmc-accept. */
cmnWidgets.define("hmc_banana", (box) => {
  const {node, set, show, slider, plot, handle} = cmnWidgets;
  let q = [1.9, 1.9], p = [-0.8, -2.4], step = 0.15, count = 20;

  const value = ([x, y]) => -x * x / 2 - 2 * (y - x * x / 2) ** 2;
  const slope = ([x, y]) => { const bend = y - x * x / 2; return [-x + 4 * bend * x, -4 * bend]; };
  /* places and energies: half a kick, a drift, half a kick; the masses are 1 */
  const roll = () => {
    let at = [...q], momentum = [...p], grad = slope(at);
    const energy = () => (momentum[0] ** 2 + momentum[1] ** 2) / 2 - value(at);
    const path = [{q: at, energy: energy()}];
    for (let i = 0; i < count; i++) {
      const half = momentum.map((m, j) => m + step / 2 * grad[j]);
      at = at.map((v, j) => v + step * half[j]);
      grad = slope(at);
      momentum = half.map((m, j) => m + step / 2 * grad[j]);
      path.push({q: at, energy: energy()});
    }
    return path;
  };

  const controls = node(box, "div", {class: "widget-controls"});
  slider(controls, "step \u03b5", 0.02, 1, 0.01, step, (v) => show(v), (v) => { step = v; draw(); });
  slider(controls, "number of steps", 1, 80, 1, count, (v) => String(v), (v) => { count = v; draw(); });
  const panels = node(box, "div", {class: "widget-panels"});
  const left = plot(panels, {label: "Trajectory on a banana", x: [-3.2, 3.2], y: [-1.6, 4], xt: [-3, -2, -1, 0, 1, 2, 3], yt: [-1, 0, 1, 2, 3], h: 310,
    xl: "first coordinate of q", yl: "second coordinate"});
  const right = plot(panels, {label: "Energy error", role: "img", x: [0, 80], y: [-2, 2], h: 310, xl: "step", yl: "energy minus energy at the start, nats"});
  /* the level where the log density is -c: y = x^2/2 +- sqrt((c - x^2/2)/2) */
  for (const c of [0.25, 1, 2, 4]) {
    const turns = Array.from({length: 121}, (_, i) => i / 60 * Math.PI).map((a) => {
      const x = Math.sqrt(2 * c) * Math.cos(a);
      return [x, x * x / 2 + Math.sqrt(c / 2) * Math.sin(a)];
    });
    set(left.curve("level"), {d: left.d(turns)});
  }
  const arrow = left.curve("gap"), trail = left.curve("b solid"), dots = node(left.inside, "g", {class: "dots"});
  const last = node(left.inside, "path", {class: "last"}), zero = right.curve("level"), error = right.curve("b solid");
  const tip = () => [q[0] + p[0] / 2, q[1] + p[1] / 2], text = (v) => v.map((u) => show(u, 1)).join(", ");
  const grips = [handle(left, {label: "start", name: "start", at: () => q, text: () => text(q), move: (x, y) => { q = [x, y]; draw(); }}),
    handle(left, {label: "tip of the momentum, half its length", name: "momentum", at: tip, text: () => `momentum ${text(p)}`,
      move: (x, y) => { p = [2 * (x - q[0]), 2 * (y - q[1])]; draw(); }})];
  const said = node(box, "p", {class: "widget-said two"});

  function draw() {
    const path = roll(), end = path[count], errors = path.map((s) => s.energy - path[0].energy), rise = errors[count];
    const sane = path.filter((s) => Math.abs(s.q[0]) < 99 && Math.abs(s.q[1]) < 99).map((s) => s.q);
    set(trail, {d: left.d(sane)});
    dots.textContent = "";
    for (const [x, y] of sane) node(dots, "circle", {cx: left.X(x), cy: left.Y(y), r: 2.6});
    const fine = Number.isFinite(rise) && sane.length === path.length;
    set(last, {d: fine ? `M${left.X(end.q[0]) - 6} ${left.Y(end.q[1]) - 6}h12v12h-12z` : "M0 0"});
    set(arrow, {d: left.d([q, tip()])});
    grips.forEach((place) => place());
    const top = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10].find((v) => errors.every((e) => Math.abs(e) <= v)) || 20;
    right.o.y = [-top, top];
    right.o.x = [0, Math.max(10, count)];
    right.ticks([0, Math.round(right.o.x[1] / 2), right.o.x[1]], [-top, 0, top]);
    set(zero, {d: right.d([[0, 0], [80, 0]])});
    set(error, {d: right.d(errors.map((e, i) => [i, Number.isFinite(e) ? e : 1e6]))});
    said.textContent = `The square is the end, at time ${show(step * count)}. ` + (rise <= 1000
      ? `Energy error ${show(rise, 3)} nats: accepted with probability ${show(Math.min(1, Math.exp(-rise)), 3)}.`
      : "The energy has exploded: a divergent trajectory, never accepted.");
  }
  draw();
  return {values: () => { const path = roll(), rise = path[count].energy - path[0].energy;
    return {q, p, step, count, end: path[count].q, rise, accept: rise <= 1000 ? Math.min(1, Math.exp(-rise)) : 0}; }};
});
