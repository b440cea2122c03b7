// Draws the model of `data` into the page: modules are boxes that a click opens and closes.
// Each open module is laid out by itself (dagre) and is then one box of the module around it; what
// it reads from outside and what others read of it are small ports at its border.
"use strict";

const root = data.root, boxes = new Map(), groups = new Map(), open = new Set(data.open);
const canvas = document.createElement("canvas").getContext("2d");
const svg = document.getElementById("graph"), scene = document.getElementById("scene");
const details = document.getElementById("details");
const show = { weights: data.weights, attributes: data.attributes };
let zoom = 1, panX = 0, panY = 0, chosen = null;

// -- the model: who lies in whom, and which edges cross or connect what in each group

(function adopt(group) {
  groups.set(group.k, group);
  group.links = []; group.ins = new Map(); group.outs = new Map();
  for (const item of group.i) {
    item.up = group;
    if (item.i) adopt(item); else boxes.set(item.k, item);
  }
})(root);

function ancestors(item) {  // from the item itself to the root
  const found = [];
  for (let at = item; at; at = at.up) found.push(at);
  return found;
}

for (const [from, to, name, type, inner] of data.edges) {
  const source = boxes.get(from), target = boxes.get(to);
  // many outputs (or inputs) of the model are one bundle, with one port at each border
  const bundle = target.up.g === "ends" ? "outputs" : source.up.g === "ends" ? "inputs" : "";
  const tensor = bundle || from + "/" + name;
  const up = ancestors(source), down = ancestors(target);
  while (up.at(-2) === down.at(-2) && up.length > 1 && down.length > 1) { up.pop(); down.pop(); }
  const common = up.at(-1);
  const edge = { tensor, name: bundle || name, type, inner };
  common.links.push({ ...edge, from: up.at(-2), to: down.at(-2) });
  for (let n = 1; n < up.length - 1; n++) cross(up[n].outs, tensor, edge, up[n - 1]);
  for (let n = 1; n < down.length - 1; n++) cross(down[n].ins, tensor, edge, down[n - 1]);
}

function cross(ports, tensor, edge, child) {
  if (!ports.has(tensor)) ports.set(tensor, { ...edge, children: new Set() });
  ports.get(tensor).children.add(child);
}

// -- sizes and positions

function width(text, font) { canvas.font = font; return canvas.measureText(text).width; }
const BOLD = "bold 12px Helvetica, Arial, sans-serif", SMALL = "10px Helvetica, Arial, sans-serif";

function rows(box) {
  return [...(show.attributes ? box.a.map(r => [...r, "attribute"]) : []),
          ...(show.weights ? box.w.map(r => [...r, "weight"]) : [])];
}

function title(group) { return [group.t, group.c]; }

function measure(item) {
  if (!item.i) {
    const lines = rows(item);
    item.lines = lines;
    item.w0 = Math.max(width(item.t, BOLD) + (item.n && !item.r ? width(item.n, SMALL) + 8 : 0),
      item.r ? width(item.n, SMALL) : 0,
      ...lines.map(r => width(r[0], SMALL) + width(r[1], SMALL) + 12)) + 18;
    item.h0 = 22 + (item.r && item.n ? 12 : 0) + 14 * lines.length + (lines.length ? 4 : 0);
  } else if (!open.has(item.k)) {
    item.lines = [...(item.g === "others" ? ["each like the one before"] : []), ...item.s];
    item.w0 = Math.max(title(item).reduce((sum, text) => sum + width(text, BOLD) + 8, 10),
      ...item.lines.map(text => width(text, SMALL))) + 36;
    item.h0 = 26 + 13 * item.lines.length;
  } else {
    arrange(item);
  }
}

function arrange(group) {
  const g = new dagre.graphlib.Graph({ multigraph: true });
  g.setGraph({ rankdir: "TB", nodesep: 18, edgesep: 12, ranksep: 22 });
  g.setDefaultEdgeLabel(() => ({}));
  for (const item of group.i) {
    measure(item);
    g.setNode(item.k, { width: item.w0, height: item.h0, item });
  }
  const merged = new Map();
  const connect = (a, b, edge, portA, portB) => {
    const key = `${a} ${portA ? edge.tensor : ""} ${b} ${portB ? edge.tensor : ""}`;
    if (!merged.has(key)) merged.set(key, { a, b, edges: [], portA, portB });
    merged.get(key).edges.push(edge);
  };
  const opened = item => item.i && open.has(item.k);
  for (const link of group.links) {
    if (link.from === link.to) continue;
    connect(link.from.k, link.to.k, link, opened(link.from), opened(link.to));
  }
  group.ports = { in: new Map(), out: new Map() };
  if (group !== root) {
    // the ports stand on the first and the last rank: pulled there by edges that nobody sees
    g.setNode(" top", { width: 1, height: 1 }); g.setNode(" end", { width: 1, height: 1 });
    const fed = new Set(), read = new Set();
    for (const { from, to } of group.links) if (from !== to) { read.add(from); fed.add(to); }
    for (const port of group.ins.values()) for (const child of port.children) fed.add(child);
    for (const port of group.outs.values()) for (const child of port.children) read.add(child);
    for (const item of group.i) {
      if (!fed.has(item)) g.setEdge(" top", item.k, { weight: 0, minlen: 2 }, "t");
      if (!read.has(item)) g.setEdge(item.k, " end", { weight: 0, minlen: 2 }, "t");
    }
    const pill = (port, ports) => ports.size === 1 ? { width: 7, height: 7, port, name: "" }
      : { width: Math.min(150, width(port.name, SMALL)) + 8, height: 12, port, name: port.name };
    for (const [tensor, port] of group.ins) {
      const key = "in " + tensor;
      g.setNode(key, pill(port, group.ins));
      g.setEdge(" top", key, { weight: 1000 }, "t");
      for (const child of port.children) connect(key, child.k, port, false, opened(child));
    }
    for (const [tensor, port] of group.outs) {
      const key = "out " + tensor;
      g.setNode(key, pill(port, group.outs));
      g.setEdge(key, " end", { weight: 1000 }, "t");
      for (const child of port.children) connect(child.k, key, port, opened(child), false);
    }
  }
  const said = new Set();
  for (const [key, link] of merged) {
    const types = [...new Set(link.edges.filter(e => !said.has(link.a + e.tensor)).map(e => e.type))];
    const ends = [link.a, link.b].some(k => k.startsWith("in ") || k.startsWith("out ") || (boxes.get(k) || {}).r);
    link.label = ends ? [] : types.filter(Boolean).length > 2 ? [`${types.length} results`] : types.filter(Boolean);
    for (const e of link.edges) said.add(link.a + e.tensor);
    g.setEdge(link.a, link.b, {
      link, weight: 2, width: 1, height: 11 * link.label.length,
    }, key);
  }
  dagre.layout(g);
  place(group, g);
}

function place(group, g) {
  // the box around what is drawn, with room for the title
  let left = Infinity, top = Infinity, right = -Infinity, bottom = -Infinity;
  const extend = (x, y, w, h) => {
    left = Math.min(left, x - w / 2); right = Math.max(right, x + w / 2);
    top = Math.min(top, y - h / 2); bottom = Math.max(bottom, y + h / 2);
  };
  const seen = g.edges().filter(e => g.edge(e).link);
  for (const key of g.nodes()) {
    const node = g.node(key);
    if (node.item || node.port) extend(node.x, node.y, node.width, node.height);
  }
  for (const e of seen) {
    const edge = g.edge(e);
    for (const p of edge.points) extend(p.x, p.y, 0, 0);
    edge.said = Math.max(0, ...edge.link.label.map(text => width(text, SMALL)));
    if (edge.link.label.length) extend(edge.x + edge.said / 2 + 4, edge.y, edge.said, edge.height);
  }
  if (left === Infinity) left = top = right = bottom = 0;
  const margin = group === root ? 0 : 12, head = group === root ? 0 : 30;
  const dx = margin - left, dy = head - top;
  const need = group === root ? 0 : title(group).reduce((sum, text) => sum + width(text, BOLD) + 8, 24);
  const extra = Math.max(0, (need - (right - left + 2 * margin)) / 2);
  for (const key of g.nodes()) {
    const node = g.node(key);
    if (node.item) { node.item.x = node.x + dx + extra; node.item.y = node.y + dy; }
    else if (node.port) group.ports[key.startsWith("in ") ? "in" : "out"].set(node.port.tensor,
      { x: node.x + dx + extra, y: node.y + dy, w: node.width, h: node.height, port: node.port, name: node.name });
  }
  group.w0 = right - left + 2 * margin + 2 * extra;
  group.h0 = bottom - top + head + margin;
  const labels = [];
  group.drawn = seen.map(e => {
    const edge = g.edge(e), link = edge.link;
    const points = edge.points.map(p => ({ x: p.x + dx + extra, y: p.y + dy }));
    const label = { x: edge.x + dx + extra + 4, y: edge.y + dy, w: edge.said, h: edge.height };
    const hides = other => Math.abs(other.y - label.y) < (other.h + label.h) / 2
      && other.x < label.x + label.w && label.x < other.x + other.w;
    if (label.h && labels.some(hides)) label.x -= label.w + 8;  // on the other side of the edge
    while (label.h && labels.some(hides)) label.y += 4;
    labels.push(label);
    return { points, link, x: label.x, y: label.y };
  });
}

// -- drawing

function escape(text) {
  return String(text).replace(/[&<>"']/g, c => `&#${c.charCodeAt(0)};`);
}
function text(x, y, words, kind, anchor) {
  return `<text x="${x}" y="${y}" class="${kind}"${anchor ? ` text-anchor="${anchor}"` : ""}>${escape(words)}</text>`;
}
function clipped(words, most) {
  let found = words;
  while (found.length > 4 && width(found, SMALL) > most) found = found.slice(0, -2);
  return found === words ? words : found + "…";
}

function drawItem(item, depth) {
  const x = item.x - item.w0 / 2, y = item.y - item.h0 / 2;
  const inside = item.i ? (open.has(item.k) ? drawOpen(item, depth) : drawClosed(item)) : drawBox(item);
  return `<g data-k="${item.k}" transform="translate(${x},${y})">${inside}</g>`;
}

function drawBox(box) {
  const w = box.w0, h = box.h0, kind = box.r ? (box.r === 1 ? "input" : "output") : "node";
  let found = `<g class="box ${kind}"><title>${escape(box.m || box.t)}</title>` +
    `<rect width="${w}" height="${h}" rx="${box.r ? 10 : 4}"/>`;
  const below = box.lines.length ? `v18h${-w}z` : `v14a4 4 0 0 1 -4 4h${8 - w}a4 4 0 0 1 -4 -4z`;
  if (!box.r) found += `<path d="M0 4a4 4 0 0 1 4 -4h${w - 8}a4 4 0 0 1 4 4${below}" fill="${box.f}" class="bar"/>`;
  const center = box.n && !box.r ? w / 2 - width(box.n, SMALL) / 2 - 3 : w / 2;
  found += text(center, 15, box.t, "bold", "middle");
  if (box.n) found += box.r ? text(w / 2, 28, box.n, "small", "middle")
    : text(center + width(box.t, BOLD) / 2 + 6, 15, box.n, "small");
  box.lines.forEach((row, n) => {
    found += text(8, 35 + 14 * n, row[0], "small " + row[2]) + text(w - 8, 35 + 14 * n, row[1], "small value", "end");
  });
  return found + "</g>";
}

function heading(group, x, y) {
  const [name, kind] = title(group);
  return text(x, y, name, "bold") + (kind ? text(x + width(name, BOLD) + 8, y, kind, "kind") : "");
}

function drawClosed(group) {
  const w = group.w0, h = group.h0;
  const behind = group.u > 1
    ? `<rect x="6" y="6" width="${w}" height="${h}" rx="6" class="behind"/><rect x="3" y="3" width="${w}" height="${h}" rx="6" class="behind"/>` : "";
  return `<g class="group closed" data-toggle="${group.k}"><title>${escape(group.p || group.t)}: click to open</title>${behind}` +
    `<rect width="${w}" height="${h}" rx="6"/>` + text(9, 17, "+", "sign") + heading(group, 24, 17) +
    group.lines.map((line, n) => text(24, 32 + 13 * n, line, "small")).join("") + "</g>";
}

function drawOpen(group, depth) {
  const shade = `fill-opacity="${0.35 + 0.1 * (depth % 4)}"`;
  return `<g class="group open"><rect width="${group.w0}" height="${group.h0}" rx="8" ${shade} class="${group.g}"/>` +
    `<g data-toggle="${group.k}" class="head"><title>${escape(group.p || group.t)}: click to close</title>` +
    `<rect width="${group.w0}" height="24" rx="8" class="grip"/>` + text(9, 17, "−", "sign") + heading(group, 24, 17) +
    "</g></g>" + drawInside(group, depth + 1);
}

function drawInside(group, depth) {
  const kids = new Map(group.i.map(item => [item.k, item]));
  let found = group.drawn.map(edge => drawEdge(edge, kids)).join("");
  for (const side of ["in", "out"]) {
    for (const { x, y, w, h, port, name } of group.ports[side].values()) {
      const edge = side === "in" ? 24 : group.h0;
      const end = side === "in" ? y - h / 2 : y + h / 2;
      found += `<g class="port" data-t="${escape(port.tensor)}"><title>${escape(port.name + " " + port.type)}</title>` +
        `<path d="M${x} ${edge}L${x} ${end}" class="edge"/>` +
        `<rect x="${x - w / 2}" y="${y - h / 2}" width="${w}" height="${h}" rx="${h / 2}"/>` +
        text(x, y + 3.5, clipped(name, 146), "tiny", "middle") + "</g>";
    }
  }
  return found + group.i.map(item => drawItem(item, depth)).join("");
}

function drawEdge({ points, link, x, y }, kids) {
  // edges leave at the bottom and enter at the top; of an open module, at its port
  points = points.slice();
  const tensor = link.edges[0].tensor, a = kids.get(link.a), b = kids.get(link.b);
  const port = (item, side) => item && item.ports && open.has(item.k) && item.ports[side].get(tensor);
  const end = (item, toward, found, y) => ({
    x: found ? item.x - item.w0 / 2 + found.x
      : Math.max(item.x - item.w0 / 2 + 8, Math.min(item.x + item.w0 / 2 - 8, toward.x)), y });
  const last = points.length - 1;
  if (a) points[0] = end(a, points[1], link.portA && port(a, "out"), a.y + a.h0 / 2);
  if (b) points[last] = end(b, points[last - 1], link.portB && port(b, "in"), b.y - b.h0 / 2);
  let path = `M${points[0].x} ${points[0].y}`;
  for (let n = 1; n < points.length; n++) {
    const p = points[n - 1], q = points[n], half = (p.y + q.y) / 2;
    path += `C${p.x} ${half} ${q.x} ${half} ${q.x} ${q.y}`;
  }
  const kind = link.edges.every(e => e.inner) ? "inner" : points.length > 9 ? "long" : "";
  const tensors = link.edges.map(e => e.tensor).join(" ");
  const said = link.edges.map(e => `${e.name} ${e.type}`).join("\n");
  return `<g class="link ${kind}" data-t="${escape(tensors)}"><title>${escape(said)}</title>` +
    `<path d="${path}" class="wide"/><path d="${path}" class="edge" marker-end="url(#arrow)"/>` +
    link.label.map((line, n) => text(x, y - 5.5 * link.label.length + 9 + 11 * n, line, "type")).join("") + "</g>";
}

function draw() {
  arrange(root);
  scene.innerHTML = drawInside(root, 0);
  mark();
}

// -- looking around

function move() { scene.setAttribute("transform", `translate(${panX},${panY}) scale(${zoom})`); }

function fit(event) {  // all of it; at first, as small as it can be read
  const view = svg.getBoundingClientRect();
  zoom = Math.min(1.25, (view.width - 40) / root.w0, (view.height - 40) / root.h0);
  if (!event) zoom = Math.max(0.55, zoom);
  panX = (view.width - root.w0 * zoom) / 2;
  panY = Math.max(20, (view.height - root.h0 * zoom) / 2);
  move();
}

function scale(factor, x, y) {
  const view = svg.getBoundingClientRect();
  x = x ?? view.width / 2; y = y ?? view.height / 2;
  const next = Math.max(0.02, Math.min(6, zoom * factor));
  panX = x - (x - panX) * next / zoom; panY = y - (y - panY) * next / zoom;
  zoom = next;
  move();
}

function position(item) {  // of its upper left corner, in the scene
  let x = 0, y = 0;
  for (let at = item; at !== root; at = at.up) { x += at.x - at.w0 / 2; y += at.y - at.h0 / 2; }
  return [x, y];
}

function toggle(key) {
  const group = groups.get(key), [x, y] = position(group);
  if (open.has(key)) open.delete(key); else open.add(key);
  draw();
  const [toX, toY] = position(group);  // what was clicked stays where it is
  panX += (x - toX) * zoom; panY += (y - toY) * zoom;
  move();
}

function reveal(item) {
  for (const group of ancestors(item).slice(1)) open.add(group.k);
  chosen = item;
  draw();
  const view = svg.getBoundingClientRect(), [x, y] = position(item);
  zoom = Math.max(zoom, 0.8);
  panX = view.width / 2 - (x + item.w0 / 2) * zoom;
  panY = view.height / 2 - (y + Math.min(item.h0 / 2, 200)) * zoom;
  move();
  tell(item);
}

function mark() {
  if (!chosen) return;
  const found = scene.querySelector(`[data-k="${chosen.k}"]`);
  if (found) found.classList.add("chosen");
}

function tell(item) {
  const lines = item.i
    ? [["module", item.p], ["class", item.c], ...item.s.map((text, n) => [n ? "operators" : "inside", text])]
    : [["name", item.m], ...item.h, ...item.a, ...item.w.map((row, n) => [item.z[n], row[1]])];
  details.innerHTML = `<b>${escape(item.t)}</b><table>` + lines.filter(row => row[1]).map(
    ([name, value]) => `<tr><th>${escape(name)}</th><td>${escape(value)}</td></tr>`).join("") + "</table>";
  details.hidden = false;
}

// -- what the user does

let held = null;
svg.addEventListener("pointerdown", event => {
  held = { x: event.clientX, y: event.clientY, moved: false, target: event.target };
});
svg.addEventListener("pointermove", event => {
  if (!held) return;
  if (Math.abs(event.clientX - held.x) + Math.abs(event.clientY - held.y) > 3 || held.moved) {
    if (!held.moved) svg.setPointerCapture(event.pointerId);  // also outside of the window
    panX += event.clientX - held.x; panY += event.clientY - held.y;
    held = { ...held, x: event.clientX, y: event.clientY, moved: true };
    move();
  }
});
svg.addEventListener("pointerup", () => {
  const click = held && !held.moved ? held.target : null;
  held = null;
  if (click) press(click);
});

function press(target) {
  scene.querySelectorAll(".chosen").forEach(each => each.classList.remove("chosen"));
  const grip = target.closest("[data-toggle]"), item = target.closest("[data-k]");
  chosen = item ? boxes.get(item.dataset.k) || groups.get(item.dataset.k) : null;
  details.hidden = true;
  if (chosen) tell(chosen);
  if (grip) toggle(grip.dataset.toggle); else mark();
}

svg.addEventListener("wheel", event => {
  event.preventDefault();
  const view = svg.getBoundingClientRect();
  scale(Math.exp(-event.deltaY * 0.0015), event.clientX - view.left, event.clientY - view.top);
}, { passive: false });

scene.addEventListener("pointerover", event => {
  const found = event.target.closest("[data-t]");
  scene.querySelectorAll(".hot").forEach(each => each.classList.remove("hot"));
  if (!found) return;
  for (const tensor of found.dataset.t.split(" ")) {
    scene.querySelectorAll(`[data-t~="${CSS.escape(tensor)}"]`).forEach(each => each.classList.add("hot"));
  }
});

function setAll(opened) {
  open.clear();
  if (opened) {
    for (const group of groups.values()) if (!["others", "stretch", "ends"].includes(group.g)) open.add(group.k);
    for (const group of groups.values()) {  // nothing that lies in a closed group matters
      if (ancestors(group).slice(1).some(each => each !== root && !open.has(each.k))) open.delete(group.k);
    }
  }
  draw(); fit();
}

const search = document.getElementById("search"), results = document.getElementById("results");
search.addEventListener("input", () => {
  const words = search.value.trim().toLowerCase(), found = [];
  if (words) {
    for (const item of [...groups.values(), ...boxes.values()]) {
      if (item === root || found.length >= 60) continue;
      const said = item.i ? `${item.p} ${item.c} ${item.t}` : `${item.t} ${item.m} ${item.z.join(" ")} ${item.o.join(" ")}`;
      if (said.toLowerCase().includes(words)) found.push(item);
    }
  }
  results.innerHTML = found.map(item =>
    `<li data-k="${item.k}"><b>${escape(item.t)}</b> ${escape(item.i ? item.c : item.m)}</li>`).join("");
  results.hidden = !found.length;
});
search.addEventListener("keydown", event => {
  if (event.key === "Enter" && results.firstChild) results.firstChild.click();
  if (event.key === "Escape") { search.value = ""; results.hidden = true; }
});
results.addEventListener("click", event => {
  const key = event.target.closest("li").dataset.k;
  results.hidden = true;
  reveal(boxes.get(key) || groups.get(key));
});

const act = (id, does) => document.getElementById(id).addEventListener("click", does);
act("fit", fit); act("in", () => scale(1.3)); act("out", () => scale(1 / 1.3));
act("all", () => setAll(true)); act("none", () => setAll(false));
for (const what of ["weights", "attributes"]) {
  const mark = document.getElementById(what);
  mark.checked = show[what];
  mark.addEventListener("change", () => { show[what] = mark.checked; draw(); });
}
addEventListener("resize", () => { if (!chosen) fit(); });
addEventListener("hashchange", follow);

function follow() {  // page.html#encoder.layer.0 shows that module open
  const path = decodeURIComponent(location.hash.slice(1));
  const group = path && [...groups.values()].find(each => each.p === path && each !== root);
  if (path === "all") setAll(true);
  if (!group) return;
  open.add(group.k);
  reveal(group);
}

document.getElementById("count").textContent = `${data.nodes} nodes, ${data.modules} modules`;
draw(); fit(); follow();
document.body.dataset.ready = "yes";
