// What JavaScript adds to pages that work without it: live progress, previews, sliders, copying.

const all = (selector, root = document) => [...root.querySelectorAll(selector)];

// Live progress. A browser has six connections for this console in all its tabs: hidden ones give theirs up.
for (const area of all("[data-live]")) {
  let source;
  const lost = document.createElement("p");
  lost.className = "failure";
  lost.setAttribute("role", "alert");
  lost.textContent = "The console does not respond: it has ended, or was started anew. What this page shows is no longer updated.";
  const isLost = (value) => {
    area.classList.toggle("lost", value);
    if (!value) lost.remove();
    else if (!lost.isConnected) (area.closest(".scroll") ?? area).before(lost);
  };
  const keyOf = (control) => control.getAttribute("href") ?? control.textContent;
  const receive = ({ data }) => {
    const { run, html, state, over } = JSON.parse(data);
    let place = area.querySelector(`[data-run="${run}"]`);
    if (!place && area.matches("tbody")) {
      place = document.createElement("tr");
      place.dataset.run = run;
      area.prepend(place);
    }
    if (!place) return;
    const focused = place.contains(document.activeElement) && keyOf(document.activeElement);
    place.innerHTML = html;
    if (focused) all("button, a", place).find((control) => keyOf(control) === focused)?.focus();
    const status = area.querySelector("[role=status]");
    if (status && status.textContent !== state) status.textContent = state;
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
    source.onopen = () => isLost(false);
    source.onerror = () => isLost(true);
  };
  document.addEventListener("visibilitychange", update);
  addEventListener("pagehide", () => source?.close());
  update();
}

// Files: dropped anywhere on their area, and shown before they are sent.
for (const area of all(".drop")) {
  const input = area.querySelector("input[type=file]");
  const preview = area.querySelector(".preview");
  const chosen = area.querySelector(".chosen");
  const empty = chosen.textContent;
  const show = () => {
    const files = [...input.files];
    preview.replaceChildren();
    for (const file of files.slice(0, 12)) {
      const tag = { image: "img", video: "video" }[file.type.split("/")[0]];
      if (!tag || file.type.startsWith("image/svg")) continue;
      const media = document.createElement(tag);
      media.alt = file.name;
      media.src = URL.createObjectURL(file);
      preview.append(media);
    }
    chosen.textContent = files.map((file) => file.name).join(", ") || empty;
    area.closest(".invalid")?.classList.remove("invalid");
  };
  input.addEventListener("change", show);
  if (input.files.length) show();
  for (const kind of ["dragenter", "dragover", "dragleave", "drop"]) {
    area.addEventListener(kind, (event) => {
      area.classList.toggle("over", kind === "dragenter" || kind === "dragover");
      if (kind !== "drop" || !event.dataTransfer.files.length) return;
      const files = new DataTransfer();
      [...event.dataTransfer.files].slice(0, input.multiple ? undefined : 1).forEach((file) => files.items.add(file));
      input.files = files.files;
      show();
    });
  }
}
// Also a file that misses its area must not replace the page.
for (const kind of ["dragenter", "dragover", "drop"]) addEventListener(kind, (event) => event.preventDefault());

// Numbers: a slider beside the field.
for (const slider of all(".number input[type=range]")) {
  const field = slider.nextElementSibling;
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

// Copying, which browsers permit to pages of this machine or with TLS alone.
for (const button of navigator.clipboard ? all(".copy") : []) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
}
