/* What the pictures to play with share. No library; works from file://.
   <div class="widget" data-widget="NAME"><img ...></div> asks for one; the image stays for print and without scripts. */
(() => {
  const home = document.currentScript.src.replace(/[^/]*$/, ""), SVG = "http://www.w3.org/2000/svg", asked = {}, builders = {};

  const set = (e, attributes, text) => {
    for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
    if (text !== undefined) e.textContent = text;
  };
  const node = (parent, tag, attributes = {}, text) => {
    const e = tag === "svg" || parent.namespaceURI === SVG ? document.createElementNS(SVG, tag) : document.createElement(tag);
    set(e, attributes, text);
    return parent.appendChild(e);
  };
  const minus = (text) => text.replace("-", "\u2212");
  const show = (value, digits = 2) => minus(value.toFixed(digits).replace(/^-(?=[0.]*$)/, ""));
  const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

  const slider = (parent, label, min, max, step, value, text, change) => {
    const row = node(parent, "label", {class: "widget-slider"});
    node(row, "span", {}, label);
    const input = node(row, "input", {type: "range", min, max, step, value, "aria-label": label}), output = node(row, "output");
    const say = () => set(input, {"aria-valuetext": output.textContent = text(+input.value)});
    input.oninput = () => { say(); change(+input.value); };
    say();
    return {set value(v) { input.value = v; say(); }};
  };

  const choice = (parent, label, options, value, change) => {
    const row = node(parent, "label", {class: "widget-choice"});
    node(row, "span", {}, label);
    const select = node(row, "select", {"aria-label": label});
    for (const [v, text] of options) node(select, "option", {value: v}, text);
    select.value = value;
    select.onchange = () => change(select.value);
  };

  /* an svg with axes; X and Y map to pixels, `inside` is clipped; o: label role w h m(argins) x y (ranges) log xl yl xt yt (ticks) xf yf */
  let clips = 0;
  const plot = (parent, o) => {
    const w = o.w || 340, h = o.h || 250, [top, right, bottom, left] = o.m || [22, 10, 36, 40], low = h - bottom;
    const svg = node(parent, "svg", {viewBox: `0 0 ${w} ${h}`, role: o.role || "group", "aria-label": o.label});
    const bend = o.log ? Math.log : (v) => v, id = `widget-clip-${clips++}`;
    const X = (v) => left + (bend(v) - bend(o.x[0])) / (bend(o.x[1]) - bend(o.x[0])) * (w - left - right);
    const Y = (v) => low - (v - o.y[0]) / (o.y[1] - o.y[0]) * (low - top);
    node(node(svg, "clipPath", {id}), "rect", {x: left, y: top, width: w - left - right, height: low - top});
    const axes = node(svg, "g", {class: "axes", "aria-hidden": true}), inside = node(svg, "g", {"clip-path": `url(#${id})`});
    const plain = (v) => minus(String(v));
    const ticks = (xt, yt) => {
      axes.textContent = "";
      const say = (x, y, anchor, text = "") => node(axes, "text", {x, y, "text-anchor": anchor}, text);
      node(axes, "path", {d: `M${left} ${top}V${low}H${w - right}` + xt.map((v) => `M${X(v)} ${low}v4`).join("") + yt.map((v) => `M${left} ${Y(v)}h-4`).join("")});
      for (const v of xt) say(X(v), low + 16, "middle", (o.xf || plain)(v));
      for (const v of yt) say(left - 7, Y(v) + 4, "end", (o.yf || plain)(v));
      say((left + w - right) / 2, h - 4, "middle", o.xl);
      say(2, 13, "start", o.yl);
    };
    if (o.xt) ticks(o.xt, o.yt);
    return {svg, o, X, Y, axes, inside, ticks, curve: (name) => node(inside, "path", {class: `curve ${name}`}),
      d: (points) => "M" + points.map(([x, y]) => `${X(x).toFixed(1)} ${clamp(Y(y), -999, 999).toFixed(1)}`).join("L")};
  };

  /* a point that is dragged, or moved by arrow keys; o: label name at() text() move(x, y) step */
  const handle = ({svg, X, Y, o: {x: xs, y: ys}}, o) => {
    const g = node(svg, "g", {class: "handle", tabindex: 0, role: "slider", "aria-label": o.label, "aria-valuemin": xs[0], "aria-valuemax": xs[1]});
    for (const [r, name] of [[17, "reach"], [7.5, "grip"]]) node(g, "circle", {r, class: name});
    node(g, "text", {x: 14, y: -12, class: "on"}, o.name || "");
    const back = (map, [a, b], v) => clamp(a + (b - a) * (v - map(a)) / (map(b) - map(a)), a, b);
    g.addEventListener("pointerdown", (e) => { g.setPointerCapture(e.pointerId); g.focus(); e.preventDefault(); });
    g.addEventListener("pointermove", (e) => {
      const at = new DOMPoint(e.clientX, e.clientY).matrixTransform(svg.getScreenCTM().inverse());
      if (g.hasPointerCapture(e.pointerId)) o.move(back(X, xs, at.x), back(Y, ys, at.y));
    });
    g.addEventListener("keydown", (e) => {
      const way = {ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1]}[e.key];
      if (!way) return;
      e.preventDefault();
      const [x, y] = o.at(), step = (o.step || 0.1) * (e.shiftKey ? 5 : 1);
      o.move(clamp(x + way[0] * step, ...xs), clamp(y + way[1] * step, ...ys));
    });
    return () => {
      const [x, y] = o.at();
      set(g, {transform: `translate(${X(x)} ${Y(y)})`, "aria-valuenow": +x.toFixed(3), "aria-valuetext": o.text()});
    };
  };

  const load = (file) => asked[file] ||= new Promise((onload, onerror) => {
    document.head.append(Object.assign(document.createElement("script"), {onload, onerror, src: `${home}${file}.js`}));
  });
  const start = (box) => load(box.dataset.widget).then(async () => {
    const name = box.dataset.widget, [build, data] = builders[name];
    if (data) await load(data);
    cmnWidgets[name] = build(node(box, "div", {class: "widget-live"}));
    box.classList.add("live");
  });
  window.cmnWidgets = {node, set, show, clamp, slider, choice, plot, handle, define: (name, ...rest) => { builders[name] = rest; }};
  document.addEventListener("DOMContentLoaded", () => document.querySelectorAll("[data-widget]").forEach(start));
})();
