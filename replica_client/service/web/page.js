"use strict";

const PERIOD = 2000;
const SVG = "http://www.w3.org/2000/svg";
const GOOD = new Set(["streaming"]);
const BAD = new Set(["failed", "stopped"]);
let before = null;

// Nodes. Text from the daemon only ever becomes text.

function node(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function drawn(name, attributes = {}, text = "") {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

// Numbers for people.

function scaled(value, units, factor) {
  let at = 0;
  while (Math.abs(value) >= factor && at < units.length - 1) { value /= factor; at += 1; }
  const digits = value >= 100 || (at === 0 && Number.isInteger(value)) ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(digits)}${units[at]}`;
}
const count = (value) => scaled(value, ["", " k", " M", " G"], 1000);
const bytes = (value) => (value === null ? "unknown" : scaled(value, [" B", " KiB", " MiB", " GiB", " TiB"], 1024));

function seconds(value) {
  if (value < 0.0005) return "0 s";
  if (value < 1) return `${Math.max(1, Math.round(value * 1000))} ms`;
  if (value < 120) return `${value.toFixed(value < 10 ? 1 : 0)} s`;
  if (value < 7200) return `${Math.floor(value / 60)} min`;
  if (value < 172800) return `${(value / 3600).toFixed(1)} h`;
  return `${Math.floor(value / 86400)} days`;
}
const clock = (at) => new Date(at * 1000).toLocaleTimeString();

// A plot of one value over time.

function plot(title, samples, at, label, className = "") {
  const width = 560, height = 150, left = 58, bottom = 20, top = 6;
  const made = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title });
  const values = samples.filter((sample) => sample[at] !== null);
  const top_value = niceTop(Math.max(0, ...values.map((sample) => sample[at])));
  const y = (value) => top + (height - top - bottom) * (1 - value / top_value);
  for (const part of [0, 0.5, 1]) {
    const level = y(top_value * part);
    made.append(drawn("line", { class: "grid", x1: left, x2: width, y1: level, y2: level }));
    made.append(drawn("text", { x: left - 6, y: level + 4, "text-anchor": "end" }, label(top_value * part)));
  }
  if (values.length > 1) {
    const first = values[0][0], last = values[values.length - 1][0];
    const x = (time) => left + (width - left) * (time - first) / Math.max(last - first, 1e-9);
    const points = values.map((sample) => `${x(sample[0]).toFixed(1)},${y(sample[at]).toFixed(1)}`);
    made.append(drawn("polygon", { class: "area", points: `${left},${y(0)} ${points.join(" ")} ${width},${y(0)}` }));
    made.append(drawn("polyline", { class: `curve ${className}`, points: points.join(" ") }));
    for (const [part, anchor] of [[0, "start"], [0.5, "middle"], [1, "end"]]) {
      const text = clock(first + (last - first) * part);
      made.append(drawn("text", { x: left + (width - left) * part, y: height - 4, "text-anchor": anchor }, text));
    }
  } else {
    made.append(drawn("text", { x: left + 12, y: height / 2 }, "not enough samples yet"));
  }
  return node("div", {}, node("h3", {}, title), made);
}

function niceTop(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value);
}

// The page.

function list(title, notes, empty) {
  const items = notes.map((note) => node("li", {}, node("time", {}, clock(note.at)), note.text));
  const body = items.length ? node("ul", {}, ...items) : node("p", { class: "quiet" }, empty);
  return node("div", {}, node("h3", {}, title), node("div", { class: "scroll" }, body));
}

function tables(route, old, elapsed) {
  const rows = route.tables.map((table) => {
    const was = old && old.tables.find((one) => one.name === table.name);
    const rate = was && elapsed > 0 ? Math.max(0, (table.rows - was.rows) / elapsed) : 0;
    return node("tr", {}, node("td", {}, table.name), node("td", {}, count(rate)),
      node("td", {}, count(table.rows)), node("td", {}, bytes(table.bytes)));
  });
  const head = node("tr", {}, ...["table", "rows/s", "rows", "bytes"].map((text) => node("th", { scope: "col" }, text)));
  const body = rows.length
    ? node("table", {}, node("thead", {}, head), node("tbody", {}, ...rows))
    : node("p", { class: "quiet" }, "no rows since the start");
  return node("div", {}, node("h3", {}, `tables (${route.table_count})`), node("div", { class: "scroll" }, body));
}

function numbers(route, now) {
  const last = route.history[route.history.length - 1] || [0, 0, 0, 0, 0];
  const facts = [
    ["lag", seconds(route.lag_seconds)],
    ["lag in bytes", bytes(route.lag_bytes)],
    ["rows per second", count(last[3])],
    ["received per second", bytes(last[4])],
    ["rows committed", count(route.rows)],
    ["last commit", route.last_commit === null ? "none yet" : `${seconds(Math.max(0, now - route.last_commit))} ago`],
    ["waiting", bytes(route.queued)],
    ["reconnects / retries", `${route.reconnects} / ${route.retries}`],
    ["dead letters", String(route.dead_letters)],
    ["values replaced by NULL", String(route.replaced_values)],
    ["losses on record", count(route.losses.length)],
    ["tables set aside", String(route.set_aside.length)],
  ];
  if (route.snapshot_tables || route.copied_rows) {
    const left = route.snapshot_tables ? `${route.snapshot_tables} tables left` : "done";
    facts.push(["snapshot", left], ["rows copied", count(route.copied_rows)]);
  }
  return node("dl", {}, ...facts.map(([name, value]) => node("div", {}, node("dt", {}, name), node("dd", {}, value))));
}

function lines(title, texts) {
  const items = texts.map((text) => node("li", {}, text));
  return node("div", {}, node("h3", {}, title), node("div", { class: "scroll" }, node("ul", {}, ...items)));
}

function place(one) {
  return one.file === null ? "unknown" : `${one.file}:${one.offset}${one.gtids ? ` (${one.gtids})` : ""}`;
}

const kindOf = (route) => (GOOD.has(route.state) ? "good" : BAD.has(route.state) ? "bad" : "busy");

// Many healthy sinks are only in the overview, until somebody opens them.
const FEW = 4;
const toggled = new Map();

function isOpen(route, many) {
  return toggled.get(route.name) ?? (many <= FEW || urgency(route) < 4);
}

function button(route, open) {
  const made = node("button", { type: "button", "aria-expanded": String(open) }, open ? "less" : "more");
  made.addEventListener("click", () => { toggled.set(route.name, !open); show(before); });
  return made;
}

function overview(routes) {
  const rows = routes.map((route) => {
    const last = route.history[route.history.length - 1] || [0, 0, 0, 0, 0];
    const name = node("a", { href: `#${route.name}` }, route.name);
    return node("tr", { "data-row": route.name }, node("td", {}, name),
      node("td", { class: `state ${kindOf(route)}` }, route.state), node("td", {}, seconds(route.lag_seconds)),
      node("td", {}, count(last[3])), node("td", {}, String(route.set_aside.length)), node("td", {}, count(route.losses.length)));
  });
  const heads = ["sink", "state", "lag", "rows/s", "set aside", "losses"];
  const head = node("tr", {}, ...heads.map((text) => node("th", { scope: "col" }, text)));
  return node("div", { class: "wide" }, node("table", {}, node("thead", {}, head), node("tbody", {}, ...rows)));
}

function section(route, status, old, elapsed) {
  const source = status.sources.find((one) => one.name === route.source);
  const many = status.routes.length, open = isOpen(route, many);
  const made = node("section", { "data-route": route.name, id: route.name },
    node("div", { class: "title" },
      node("h2", {}, `${route.source} → ${route.sink}`),
      node("span", { class: `state ${kindOf(route)}` }, route.state),
      node("span", { class: "quiet" }, `for ${seconds(Math.max(0, status.now - route.since))}`),
      node("span", { class: "quiet" }, `${route.type}, ${route.guarantee || "not opened yet"}`),
      ...(many > FEW ? [button(route, open)] : [])));
  if (route.error) made.append(node("p", { class: "problem" }, route.error));
  if (route.copying) made.append(node("p", { class: "quiet" }, `copying ${route.copying}`));
  if (route.pause_at) made.append(node("p", { class: "quiet" }, `pauses at ${route.pause_at}`));
  if (route.skips.length) made.append(node("p", { class: "quiet" }, `will skip ${route.skips.join(", ")}`));
  if (!open) return made;
  const owner = route.owner;
  made.append(numbers(route, status.now),
    node("div", { class: "plots" },
      plot("lag", route.history, 1, seconds),
      plot("rows per second", route.history, 3, count, "second")),
    node("p", { class: "where" }, `committed ${place(route)}`, node("br"),
      `source at ${source ? place(source) : "unknown"}${source && source.error ? ` — ${source.error}` : ""}`,
      ...(owner ? [node("br"), `owner ${owner.service} (${owner.id}) since ${owner.since}`] : [])),
    node("div", { class: "below" },
      tables(route, old, elapsed),
      list("recent errors", route.errors, "none since the start"),
      list("schema changes", route.schema_changes, "none since the start"),
      ...(route.set_aside.length
        ? [lines("tables set aside", route.set_aside.map((one) => `${one.table}: ${one.reason}`))] : []),
      ...(route.losses.length ? [lines("losses on record", route.losses.map((loss) => loss.text))] : []),
      ...(route.transforms.length ? [lines("transforms", route.transforms)] : [])));
  return made;
}

// What needs somebody comes first.
function urgency(route) {
  if (BAD.has(route.state)) return 0;
  if (!GOOD.has(route.state)) return route.error ? 1 : 2;
  return route.set_aside.length ? 3 : 4;
}

function summary(routes) {
  const states = new Map();
  routes.forEach((route) => states.set(route.state, (states.get(route.state) || 0) + 1));
  const aside = routes.reduce((sum, route) => sum + route.set_aside.length, 0);
  const parts = [...states].map(([state, many]) => `${many} ${state}`);
  if (aside) parts.push(`${aside} tables set aside`);
  if (routes.length) parts.push(`largest lag ${seconds(Math.max(...routes.map((route) => route.lag_seconds)))}`);
  return `${routes.length} sinks: ${parts.join(", ")}`;
}

function order(one) {
  const more = [...(one.tables || []), one.transaction, one.at, one.where, one.what];
  const what = [...one.sinks, ...more.filter(Boolean)].join(", ");
  return { at: Date.parse(one.time) / 1000, text: `${one.command} ${what} by ${one.by}: ${one.result}` };
}

function show(status) {
  const bad = status.routes.filter((route) => !GOOD.has(route.state)).length;
  document.title = `${bad ? `(${bad}!) ` : ""}replica-client on ${status.host}`;
  document.getElementById("about").textContent =
    `${status.version} on ${status.host}, process ${status.pid}, up ${seconds(status.now - status.started)}, ${status.config}`;
  const problem = document.getElementById("config-error");
  problem.hidden = !status.config_error;
  problem.textContent = `the configuration was not read again: ${status.config_error}`;
  const elapsed = before ? status.now - before.now : 0;
  const scrolled = new Map();
  document.querySelectorAll("section").forEach((one) => scrolled.set(one.dataset.route,
    [...one.querySelectorAll(".scroll")].map((box) => box.scrollTop)));
  const routes = [...status.routes].sort((one, other) => urgency(one) - urgency(other));
  document.getElementById("summary").textContent = summary(routes);
  document.getElementById("overview").replaceChildren(...(routes.length > 1 ? [overview(routes)] : []));
  document.getElementById("orders").replaceChildren(
    ...(status.orders.length ? [list("orders", status.orders.map(order).reverse(), "")] : []));
  document.getElementById("routes").replaceChildren(...routes.map((route) =>
    section(route, status, before && before.routes.find((one) => one.name === route.name), elapsed)));
  document.querySelectorAll("section").forEach((one) => (scrolled.get(one.dataset.route) || []).forEach((top, at) => {
    one.querySelectorAll(".scroll")[at].scrollTop = top;
  }));
  before = status;
}

async function refresh() {
  const said = document.getElementById("connection");
  try {
    const answer = await fetch("status.json", { cache: "no-store", signal: AbortSignal.timeout(5000) });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    show(await answer.json());
    said.textContent = `as of ${clock(before.now)}`;
    said.className = "";
  } catch (error) {
    said.textContent = `no answer from the daemon (${error.message})`;
    said.className = "problem";
  }
  setTimeout(refresh, document.hidden ? 5 * PERIOD : PERIOD);
}

refresh();
