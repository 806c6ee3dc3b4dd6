/** What stood behind the `?` when the page was opened, before the router writes numbers and texts there in its own way. */
export const arrival = new URLSearchParams(window.location.search);
