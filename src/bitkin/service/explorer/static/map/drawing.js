// The points of the map on the screen: drawn, made larger, moved, pointed at, and walked through by keys.

import { refill, svg } from "../shared/dom.js";
import { shownId } from "../shared/words.js";
import { mark } from "./colours.js";

const ROOM = 18; // pixels around the points
const MOST_ZOOM = 40;
const NEAR = 18; // pixels from a point at which the pointer means it
const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** Return {element, draw, zoom, dim}: `onPoint(point | null)` is called for the point that is meant,
 * `onChoose(point)` for the one that is pressed. */
export function mapDrawing({ onPoint, onChoose }) {
  const layer = svg("g");
  const ring = svg("circle", { class: "map-ring", r: 9, visibility: "hidden" });
  const drawing = svg("svg", { class: "map-drawing", tabindex: "0", role: "listbox", "aria-label": "Map of rows. Arrow keys go from row to row, Enter searches from there." }, layer, ring);
  let marks = []; // {point, x, y, element}
  let view = { scale: 1, x: 0, y: 0 };
  let size = { width: 0, height: 0 };
  let meant = null;
  let drag = null;

  new ResizeObserver(() => {
    size = { width: drawing.clientWidth, height: drawing.clientHeight };
    if (size.width && size.height) place();
  }).observe(drawing);

  function draw(points, colours, label) {
    const radius = points.length > 2500 ? 2.4 : points.length > 600 ? 3.4 : 4.6;
    const [xs, ys] = [points.map((p) => p.x), points.map((p) => p.y)];
    const [cx, cy] = [(Math.min(...xs) + Math.max(...xs)) / 2, (Math.min(...ys) + Math.max(...ys)) / 2];
    const span = Math.max(Math.max(...xs) - Math.min(...xs), Math.max(...ys) - Math.min(...ys)) || 1;
    const wide = Math.max(...xs) - Math.min(...xs) || span * 1e-9;
    const high = Math.max(...ys) - Math.min(...ys) || span * 1e-9;
    marks = points.map((point, i) => {
      const value = point.value === null ? "" : `, ${String(point.value)}`;
      const element = mark(colours.shapeOf(point.value), radius, {
        class: `mark ${colours.kindOf(point.value)}`, id: `point-${i}`, role: "option", "aria-selected": "false",
        "aria-label": `${shownId(point.id)}${value}`, "data-group": colours.groupOf(point.value),
      });
      return { point, x: point.x - cx, y: point.y - cy, element };
    });
    extent = { wide, high };
    view = { scale: 1, x: 0, y: 0 };
    meant = null;
    drawing.setAttribute("aria-label", label);
    drawing.removeAttribute("aria-activedescendant");
    ring.setAttribute("visibility", "hidden");
    refill(layer, marks.map((one) => one.element));
    if (size.width) place();
  }

  let extent = { wide: 1, high: 1 };

  /** Put every point where it belongs: one unit is as long across as down. */
  function place() {
    drawing.style.touchAction = view.scale > 1 ? "none" : "pan-y pinch-zoom";
    const unit = Math.min((size.width - 2 * ROOM) / extent.wide, (size.height - 2 * ROOM) / extent.high) * view.scale;
    for (const one of marks) {
      one.at = [size.width / 2 + one.x * unit + view.x, size.height / 2 - one.y * unit + view.y];
      one.element.setAttribute("transform", `translate(${one.at[0].toFixed(1)},${one.at[1].toFixed(1)})`);
    }
    placeRing();
  }

  function placeRing() {
    ring.setAttribute("visibility", meant ? "visible" : "hidden");
    if (meant) ring.setAttribute("transform", `translate(${meant.at[0].toFixed(1)},${meant.at[1].toFixed(1)})`);
  }

  function mean(one) {
    if (one === meant) return;
    meant?.element.setAttribute("aria-selected", "false");
    meant = one;
    meant?.element.setAttribute("aria-selected", "true");
    if (meant) drawing.setAttribute("aria-activedescendant", meant.element.id);
    else drawing.removeAttribute("aria-activedescendant");
    placeRing();
    onPoint(meant ? meant.point : null);
  }

  function zoom(factor, [x, y] = [size.width / 2, size.height / 2]) {
    const scale = Math.min(MOST_ZOOM, Math.max(1, view.scale * factor));
    const by = scale / view.scale;
    // what is under the pointer stays there
    view = scale === 1
      ? { scale, x: 0, y: 0 }
      : { scale, x: x - size.width / 2 - (x - size.width / 2 - view.x) * by, y: y - size.height / 2 - (y - size.height / 2 - view.y) * by };
    place();
  }

  function placeOf(event) {
    const box = drawing.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  function nearestTo([x, y]) {
    let best = null;
    let least = NEAR;
    for (const one of marks) {
      if (one.element.classList.contains("dim")) continue;
      const far = Math.hypot(one.at[0] - x, one.at[1] - y);
      if (far < least) [best, least] = [one, far];
    }
    return best;
  }

  function step(direction) {
    const seen = marks.filter((one) => !one.element.classList.contains("dim"));
    if (meant === null) {
      // the point nearest to the middle
      const middle = [size.width / 2, size.height / 2];
      const far = (one) => Math.hypot(one.at[0] - middle[0], one.at[1] - middle[1]);
      return mean(seen.reduce((a, b) => (b && far(b) < far(a) ? b : a), seen[0]) ?? null);
    }
    const [dx, dy] = direction;
    let best = null;
    let least = Infinity;
    for (const one of seen) {
      const [ox, oy] = [one.at[0] - meant.at[0], one.at[1] - meant.at[1]];
      const along = ox * dx + oy * dy;
      const cost = along + 2 * (Math.abs(ox * dy) + Math.abs(oy * dx));
      if (one !== meant && along > 0.5 && cost < least) [best, least] = [one, cost];
    }
    if (best) {
      mean(best);
      keepInSight(best);
    }
  }

  function keepInSight(one) {
    const [x, y] = one.at;
    if (x < 0 || y < 0 || x > size.width || y > size.height) {
      view = { ...view, x: view.x + size.width / 2 - x, y: view.y + size.height / 2 - y };
      place();
    }
  }

  drawing.addEventListener("pointermove", (event) => {
    if (!event.isPrimary) return; // a second finger
    if (drag) {
      view = { ...view, x: drag.view.x + event.clientX - drag.x, y: drag.view.y + event.clientY - drag.y };
      drag.moved ||= Math.hypot(event.clientX - drag.x, event.clientY - drag.y) > 4;
      if (drag.moved && view.scale > 1) place();
    } else if (event.pointerType !== "touch") mean(nearestTo(placeOf(event)));
  });
  drawing.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !event.isPrimary) return;
    drag = { x: event.clientX, y: event.clientY, view, moved: false };
    if (event.pointerType !== "touch") drawing.setPointerCapture(event.pointerId);
  });
  drawing.addEventListener("pointerup", (event) => {
    if (!event.isPrimary) return;
    const wasClick = drag && !drag.moved;
    drag = null;
    if (!wasClick) return;
    const one = nearestTo(placeOf(event));
    // a finger points first, and searches when it taps the same row again
    if (event.pointerType === "touch" && one !== meant) mean(one);
    else if (one) onChoose(one.point);
  });
  drawing.addEventListener("pointercancel", () => { drag = null; });
  drawing.addEventListener("wheel", (event) => {
    // without a sign that the map is meant the page scrolls; pinching comes as a wheel with Ctrl
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== drawing) return;
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 400), placeOf(event));
  }, { passive: false });
  drawing.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (STEPS[event.key]) step(STEPS[event.key]);
    else if (event.key === "Enter" && meant) onChoose(meant.point);
    else if (event.key === "+" || event.key === "=") zoom(1.5);
    else if (event.key === "-") zoom(1 / 1.5);
    else if (event.key === "0") zoom(1 / MOST_ZOOM);
    else if (event.key === "Escape") mean(null);
    else return;
    event.preventDefault();
  });
  drawing.addEventListener("focus", () => {
    if (meant === null && marks.length > 0 && drawing.matches(":focus-visible")) step([0, 0]);
  });

  return {
    element: drawing,
    draw,
    zoom,
    /** Show the points of one group alone, or all for null. */
    dim(group) {
      for (const one of marks) one.element.classList.toggle("dim", group !== null && one.element.dataset.group !== group);
      if (meant?.element.classList.contains("dim")) mean(null);
    },
    /** Ring the points that were found last. */
    highlight(ids) {
      for (const one of marks) one.element.classList.toggle("was-found", ids.has(String(one.point.id)));
    },
  };
}
