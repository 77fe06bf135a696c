// Arrow keys among rows on the page: to the nearest one in that direction, wherever it stands.

const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** Let arrow keys move among the links that `selector` finds; one of them is in the order of Tab. */
export function moveAmong(container, selector, onKey = () => {}) {
  const all = () => [...container.querySelectorAll(selector)];

  container.addEventListener("keydown", (event) => {
    const from = event.target.closest(selector);
    if (from === null || event.altKey || event.ctrlKey || event.metaKey) return;
    const to = target(event.key, from, all());
    if (to) {
      event.preventDefault();
      to.focus();
      to.scrollIntoView({ block: "nearest", inline: "nearest" });
    } else {
      onKey(event, from);
    }
  });
  container.addEventListener("focusin", (event) => {
    const now = event.target.closest(selector);
    if (now) all().forEach((one) => { one.tabIndex = one === now ? 0 : -1; });
  });
  all().forEach((one, i) => { one.tabIndex = i === 0 ? 0 : -1; });
}

function target(key, from, all) {
  if (key === "Home") return all[0];
  if (key === "End") return all[all.length - 1];
  const step = STEPS[key];
  return step ? nearest(from, all, step) : null;
}

/** Return the element that lies nearest in a direction; what is off the straight line counts double. */
function nearest(from, all, [dx, dy]) {
  const [x, y] = middle(from);
  let best = null;
  let least = Infinity;
  for (const one of all) {
    if (one === from) continue;
    const [ox, oy] = middle(one);
    const along = (ox - x) * dx + (oy - y) * dy;
    const aside = Math.abs((ox - x) * dy) + Math.abs((oy - y) * dx);
    const cost = along + 2 * aside;
    if (along > 1 && cost < least) [best, least] = [one, cost];
  }
  return best;
}

function middle(element) {
  const box = element.getBoundingClientRect();
  return [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
}
