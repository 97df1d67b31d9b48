"use strict";
// Curves, keys ("/" goes to the search, "g" and a letter to a page), and parts that renew themselves without taking the
// focus, the scrolled place or a selection from who reads. Everything else works without this file.
(function () {
  var chart = null, place = document.getElementById("chart");
  function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }
  function draw(data) {
    if (!place || data[0].length < 2) { return; }
    if (chart) { chart.setData(data); return; }
    var grid = { stroke: colour("--line"), width: 1 }, axis = { stroke: colour("--soft"), grid: grid, ticks: grid };
    chart = new uPlot({
      width: place.clientWidth, height: 150, cursor: { y: false },
      series: [{}, { label: "in / s", stroke: colour("--accent"), width: 2 }, { label: "out / s", stroke: colour("--good"), width: 2 }],
      axes: [axis, axis], scales: { y: { range: function (u, low, high) { return [0, Math.max(1, high * 1.1)]; } } }
    }, data, place);
  }
  function look() {
    if (!place || document.hidden) { return; }
    fetch(place.dataset.source, { credentials: "same-origin" }).then(function (r) { return r.ok ? r.json() : null; })
      .then(function (data) { if (data) { draw(data); } }).catch(function () {});
  }
  if (place) {
    look(); setInterval(look, 3000);
    window.addEventListener("resize", function () { if (chart) { chart.setSize({ width: place.clientWidth, height: 150 }); } });
  }
  var stale = document.getElementById("stale"), renewed = new Date(), kept = null;
  function inside(node) { return node && node.nodeType === 1 ? node.closest("#live,#waiting,#readers") : null; }
  function name(node) {
    var form = node.closest("form");
    return node.tagName + " " + (node.getAttribute("href") || node.textContent) + (form ? " " + new URLSearchParams(new FormData(form)) : "");
  }
  function scrolled() { return Array.from(document.querySelectorAll("#live .scroll, #waiting, #readers")); }
  document.addEventListener("htmx:beforeRequest", function (event) {
    if (document.hidden && event.target.id === "live") { event.preventDefault(); }
  });
  document.addEventListener("htmx:beforeSwap", function (event) {
    var selection = getSelection(), from = event.detail.xhr.responseURL;
    if (new URL(from, location.href).pathname === "/login") { event.detail.shouldSwap = false; location.reload(); return; }
    if (event.detail.isError) { return; }
    stale.hidden = true; renewed = new Date();
    if (event.target.id === "live" && !selection.isCollapsed && inside(selection.anchorNode.parentElement)) { event.detail.shouldSwap = false; return; }
    var focus = inside(document.activeElement) ? document.activeElement : null;
    kept = { focus: focus && name(focus), places: scrolled().map(function (one) { return [one.scrollLeft, one.scrollTop]; }) };
  });
  document.addEventListener("htmx:afterSwap", function () {
    if (!kept) { return; }
    scrolled().forEach(function (one, at) { if (kept.places[at]) { one.scrollTo(kept.places[at][0], kept.places[at][1]); } });
    if (kept.focus && document.activeElement === document.body) {
      var same = Array.from(document.querySelectorAll("#live a, #live button, .scroll, .scroll a")).find(function (one) { return name(one) === kept.focus; });
      if (same) { same.focus({ preventScroll: true }); }
    }
    kept = null;
  });
  function late() {
    stale.textContent = "Not renewed since " + renewed.toLocaleTimeString() + ": no answer, or one that says that it did not work. Reload for more.";
    stale.hidden = false;
  }
  document.addEventListener("htmx:responseError", late);
  document.addEventListener("htmx:sendError", late);
  var before = "";
  document.addEventListener("keydown", function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) { return; }
    if (event.key === "/") {
      var search = document.querySelector("input[type=search]");
      if (search) { search.focus(); event.preventDefault(); }
    } else if (before === "g") {
      var link = document.querySelector("nav a[data-key='" + CSS.escape(event.key) + "']");
      if (link) { link.click(); }
    }
    before = event.key;
  });
})();
