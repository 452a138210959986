/* Show all code (remembered), cards for links to equations and references, hints where something scrolls, and everything open in print. */
(() => {
  const ready = (f) => document.readyState === "loading" ? document.addEventListener("DOMContentLoaded", f) : f();
  const memory = { get: (k) => { try { return localStorage.getItem(k); } catch { return null; } },
                   set: (k, v) => { try { localStorage.setItem(k, v); } catch { /* private window */ } } };

  function allCode() {
    const folds = [...document.querySelectorAll("main details.fold:not(.solution)")], title = document.querySelector(".bd-article h1");
    if (!folds.length || !title) return;
    const button = Object.assign(document.createElement("button"), { id: "cmn-all", type: "button" });
    const show = (open) => {
      folds.forEach((d) => { d.open = open; });
      button.textContent = open ? "Fold code" : "Show all code";
      button.setAttribute("aria-pressed", open);
      memory.set("cmn-all-code", open ? "1" : "");
    };
    button.addEventListener("click", () => show(button.getAttribute("aria-pressed") !== "true"));
    title.before(button);
    show(memory.get("cmn-all-code") === "1");
  }

  function openTarget() {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    const own = target.querySelector("details.fold");
    if (own) own.open = true;
    for (let d = target.closest("details"); d; d = d.parentElement.closest("details")) d.open = true;
    target.scrollIntoView();
  }

  function cards() {
    const data = JSON.parse(document.getElementById("cards")?.textContent || "{}");
    let card = null, waiting = 0;
    const close = () => { clearTimeout(waiting); card?.remove(); card = null; };
    const open = (link, entry) => {
      close();
      card = Object.assign(document.createElement("div"), { id: "cmn-card" });
      card.setAttribute("role", "tooltip");
      if (entry.tex) card.innerHTML = '<div class="math notranslate nohighlight"></div>';
      const box = card.firstChild || card;
      box.textContent = entry.tex ? `\\[${/\\\\/.test(entry.tex) && !/\\begin\{(aligned|gathered|split|cases)/.test(entry.tex) ? `\\begin{split}${entry.tex}\\end{split}` : entry.tex}\\]` : entry.text;
      document.body.append(card);
      const place = () => {
        if (!card) return;
        const at = link.getBoundingClientRect(), left = Math.max(8, Math.min(at.left, innerWidth - card.offsetWidth - 8));
        const above = at.bottom + card.offsetHeight + 12 > innerHeight && at.top > card.offsetHeight + 12;
        card.style.left = `${left + scrollX}px`;
        card.style.top = `${(above ? at.top - card.offsetHeight - 6 : at.bottom + 6) + scrollY}px`;
      };
      place();
      if (entry.tex && window.MathJax?.typesetPromise) MathJax.typesetPromise([card]).then(place);
    };
    const entryOf = (link) => link && data[decodeURIComponent((link.getAttribute("href") || "").split("#")[1] || "")];
    const over = (event) => {
      const link = event.target.closest?.("main a[href*='#']"), entry = entryOf(link);
      if (entry) { clearTimeout(waiting); waiting = setTimeout(() => open(link, entry), event.type === "focusin" ? 0 : 200); }
    };
    document.addEventListener("mouseover", over);
    document.addEventListener("focusin", over);
    document.addEventListener("mouseout", (e) => { if (e.target.closest?.("main a") && !e.relatedTarget?.closest?.("#cmn-card")) close(); });
    document.addEventListener("focusout", close);
    document.addEventListener("keydown", (e) => { if (e.key === "Escape") close(); });
    /* where there is no mouse, the first tap shows and the second follows */
    document.addEventListener("click", (e) => {
      const link = e.target.closest?.("main a[href*='#']"), entry = entryOf(link);
      if (!entry || !matchMedia("(hover: none)").matches) return;
      if (link.dataset.shown) return;
      e.preventDefault();
      document.querySelectorAll("[data-shown]").forEach((other) => delete other.dataset.shown);
      link.dataset.shown = "1";
      open(link, entry);
    });
  }

  const HINT = '<span class="scroll-hint" aria-hidden="true">scroll \u2192</span>';

  function hints() {
    const fits = (box) => box.scrollWidth - box.clientWidth <= 4;
    for (const box of document.querySelectorAll(".bd-article mjx-container[display=true]")) {        /* on a desk and on paper a formula is set smaller rather than cut */
      for (let size = 124; innerWidth >= 640 && box.clientWidth > 0 && !fits(box) && size > 80; size -= 3) box.style.fontSize = `${size}%`;
    }
    for (const table of document.querySelectorAll(".bd-article table.results")) {                     /* so is a table, and then its numbers wrap */
      const box = table.closest(".output") || table, wide = () => innerWidth >= 992 && box.clientWidth > 0 && !fits(box);
      for (let size = 0.84; wide() && size > 0.7; size -= 0.02) table.style.fontSize = `${size}rem`;
      if (wide()) table.classList.add("wraps");
    }
    for (const box of document.querySelectorAll(".bd-article mjx-container[display=true], .bd-article table, .bd-article .pst-scrollable-table-container, .bd-article pre")) {
      const cut = box.clientWidth > 0 && box.scrollWidth - box.clientWidth > 6, after = box.closest("div.math, .pst-scrollable-table-container") || box;
      if (box.tagName === "MJX-CONTAINER") box.style.overflow = cut ? "auto hidden" : "visible";
      if (cut) box.setAttribute("tabindex", "0");
      else if (box.tagName !== "MJX-CONTAINER" || box.tabIndex === 0) box.removeAttribute("tabindex");
      if (cut && innerWidth < 700 && !after.nextElementSibling?.classList.contains("scroll-hint")) {
        after.insertAdjacentHTML("afterend", HINT);
      }
    }
  }

  function pictures() {                                   // panels side by side keep their letters on a phone, and scroll
    for (const img of document.querySelectorAll(".bd-article figure > a > img")) {
      const look = () => {
        if (innerWidth >= 700 || img.naturalWidth < 1.7 * img.naturalHeight || img.parentElement.matches(".wide")) return;
        img.parentElement.classList.add("wide");
        img.parentElement.insertAdjacentHTML("afterend", HINT);
      };
      img.complete ? look() : img.addEventListener("load", look);
    }
  }

  function sidebar() {                                    // the theme's arrow beside a page with pages below it says nothing
    for (const arrow of document.querySelectorAll(".bd-sidebar-primary li > details > summary")) {
      arrow.setAttribute("aria-label", `Pages below ${arrow.closest("li").querySelector("a").textContent.trim()}`);
    }
  }

  const openAll = () => document.querySelectorAll("main details:not(.fold), main details.solution").forEach((d) => { d.open = true; });
  addEventListener("beforeprint", openAll);
  ready(() => {
    allCode();
    openTarget();
    addEventListener("hashchange", openTarget);
    cards();
    sidebar();
    pictures();
    const typeset = window.MathJax?.startup?.promise;
    (typeset || Promise.resolve()).then(hints);
    document.addEventListener("toggle", () => setTimeout(hints, 0), true);
  });
  window.cmnBook = { openAll };
})();
