// What JavaScript adds to pages that work without it: live progress, previews, sliders, copying.

const all = (selector, root = document) => [...root.querySelectorAll(selector)];

// Live progress. A browser has six connections for this console in all its tabs: hidden ones give theirs up.
function live(area) {
  let source;
  const receive = ({ data }) => {
    const { run, html, over } = JSON.parse(data);
    let place = area.querySelector(`[data-run="${run}"]`);
    if (!place && area.matches("tbody")) {
      place = document.createElement("tr");
      place.dataset.run = run;
      area.prepend(place);
    }
    if (!place) return;
    const isFocused = place.contains(document.activeElement);
    place.innerHTML = html;
    if (isFocused) place.querySelector("button, a")?.focus();
    if (over && !area.matches("tbody")) {
      source.close();
      location.reload();
    }
  };
  const update = () => {
    source?.close();
    if (document.hidden) return;
    source = new EventSource(area.dataset.live);
    source.onmessage = receive;
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) setTimeout(update, 2000);
    };
  };
  document.addEventListener("visibilitychange", update);
  addEventListener("pagehide", () => source?.close());
  update();
}
all("[data-live]").forEach(live);

// Files: dropped anywhere on their area, and shown before they are sent.
function size(bytes) {
  const unit = Math.min(3, Math.floor(Math.log2(Math.max(bytes, 1)) / 10));
  return `${(bytes / 1024 ** unit).toFixed(unit ? 1 : 0)} ${["B", "KiB", "MiB", "GiB"][unit]}`;
}
function drop(area) {
  const input = area.querySelector("input[type=file]");
  const preview = area.querySelector(".preview");
  const chosen = area.querySelector(".chosen");
  const empty = chosen.textContent;
  const show = () => {
    all("img, video", preview).forEach((old) => URL.revokeObjectURL(old.src));
    preview.replaceChildren();
    for (const file of [...input.files].slice(0, 12)) {
      const tag = { image: "img", video: "video" }[file.type.split("/")[0]];
      if (!tag || file.type.startsWith("image/svg")) continue;
      const media = document.createElement(tag);
      media.alt = file.name;
      media.src = URL.createObjectURL(file);
      preview.append(media);
    }
    const names = [...input.files].map((file) => `${file.name}, ${size(file.size)}`);
    chosen.textContent = names.join("; ") || empty;
  };
  input.addEventListener("change", show);
  input.addEventListener("change", () => area.closest(".invalid")?.classList.remove("invalid"));
  if (input.files.length) show();
  for (const kind of ["dragenter", "dragover", "dragleave", "drop"]) {
    area.addEventListener(kind, (event) => {
      event.preventDefault();
      area.classList.toggle("over", kind === "dragenter" || kind === "dragover");
      if (kind !== "drop" || !event.dataTransfer.files.length) return;
      const files = new DataTransfer();
      [...event.dataTransfer.files].slice(0, input.multiple ? undefined : 1).forEach((file) => files.items.add(file));
      input.files = files.files;
      input.dispatchEvent(new Event("change"));
    });
  }
}
all(".drop").forEach(drop);
// A file that misses its area must not replace the page.
for (const kind of ["dragover", "drop"]) addEventListener(kind, (event) => event.preventDefault());

// Numbers: a slider beside the field.
for (const area of all(".number")) {
  const [slider, field] = [area.querySelector("input[type=range]"), area.querySelector("input[type=number]")];
  if (!slider) continue;
  slider.hidden = false;
  slider.addEventListener("input", () => (field.value = slider.value));
  field.addEventListener("input", () => (slider.value = field.value));
}

// Input beside output: one slider over both when they have one shape.
for (const area of all(".compare")) {
  const [before, after] = all("img", area);
  const slider = area.querySelector("input");
  Promise.all([before.decode(), after.decode()]).then(() => {
    const [one, other] = [before, after].map((image) => image.naturalWidth / image.naturalHeight);
    if (Math.abs(one / other - 1) > 0.03) return;
    area.classList.add("slides");
    slider.hidden = false;
    const move = () => area.style.setProperty("--at", `${slider.value}%`);
    slider.addEventListener("input", move);
    move();
  }, () => {});
}

// Copying.
for (const button of all(".copy")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
}

// A second click must not send a form again.
for (const form of all("form[method=post]")) {
  form.addEventListener("submit", () => {
    for (const button of all("button[type=submit]", form)) {
      button.setAttribute("aria-disabled", "true");
      setTimeout(() => (button.disabled = true));
    }
  });
}
addEventListener("pageshow", () => all("button[aria-disabled]").forEach((button) => {
  button.disabled = false;
  button.removeAttribute("aria-disabled");
}));
