import { Link, Outlet, useNavigate, useRouterState } from "@tanstack/react-router";
import { useEffect, useRef, useState, type ReactNode, type RefObject } from "react";
import { useSignedIn } from "./sign-in-gate.tsx";

const PAGES = [
  { path: "/", label: "Overview", key: "o" },
  { path: "/workloads", label: "Work", key: "w" },
  { path: "/queues", label: "Queues", key: "q" },
  { path: "/nodes", label: "Nodes", key: "n" },
  { path: "/submit", label: "Submit", key: "s" },
] as const;

/** Time after `g` within which a letter completes a shortcut. */
const SEQUENCE_MS = 1500;

/** The parts of every page: navigation, the user, and the keyboard. */
export function Shell(): ReactNode {
  const { user, signOut } = useSignedIn();
  const help = useRef<HTMLDialogElement>(null);
  const content = useRef<HTMLElement>(null);
  useKeyboard(() => help.current?.showModal());
  const path = useRouterState({ select: ({ resolvedLocation }) => resolvedLocation?.pathname });
  // The link that had the focus was removed with its page.
  useEffect(() => {
    if (document.activeElement === document.body) content.current?.focus({ preventScroll: true });
    document.title = titleOf(path ?? "/");
  }, [path]);
  return (
    <>
      <a className="skip" href="#content">
        Skip to content
      </a>
      <header>
        <strong className="brand">Muster</strong>
        <nav aria-label="Pages">
          {PAGES.map(({ path, label }) => (
            <Link key={path} to={path} activeOptions={{ exact: path === "/", includeSearch: false }}>
              {label}
            </Link>
          ))}
        </nav>
        <span className="user">
          <button
            type="button"
            onClick={() => help.current?.showModal()}
            aria-label="Keyboard help"
            title="Keyboard help (?)"
          >
            ?
          </button>
          <span className="name" title={user}>
            {user}
          </span>
          <button type="button" onClick={() => void signOut()}>
            Sign out
          </button>
        </span>
      </header>
      <main id="content" ref={content} tabIndex={-1}>
        <Outlet />
      </main>
      <Help dialog={help} />
    </>
  );
}

function Help({ dialog }: { readonly dialog: RefObject<HTMLDialogElement | null> }): ReactNode {
  return (
    <dialog ref={dialog} aria-labelledby="help-title">
      <h2 id="help-title">Keyboard</h2>
      <dl className="keys">
        <dt>
          <kbd>/</kbd>
        </dt>
        <dd>search</dd>
        {PAGES.map(({ label, key }) => (
          <div key={key} className="pair">
            <dt>
              <kbd>g</kbd> <kbd>{key}</kbd>
            </dt>
            <dd>{label}</dd>
          </div>
        ))}
        <dt>
          <kbd>?</kbd>
        </dt>
        <dd>this help</dd>
        <dt>
          <kbd>Esc</kbd>
        </dt>
        <dd>close, or leave the search</dd>
      </dl>
      <form method="dialog">
        <button type="submit">Close</button>
      </form>
    </dialog>
  );
}

/** Returns the page and the product, for example `train · Muster`, so that browser tabs differ. */
function titleOf(path: string): string {
  const page = PAGES.find((each) => each.path === path)?.label;
  return `${page ?? path.split("/").at(-1)} · Muster`;
}

function useKeyboard(showHelp: () => void): void {
  const navigate = useNavigate();
  const [show] = useState(() => showHelp);
  useEffect(() => {
    let goneAtMs = 0;
    const onKey = (event: KeyboardEvent): void => {
      const target = event.target instanceof HTMLElement ? event.target : document.body;
      const isTyping = target.matches("input, textarea, select");
      if (isTyping && event.key === "Escape") {
        // The browser's default action would clear the search.
        event.preventDefault();
        target.blur();
      }
      if (isTyping || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
      const isSecond = event.timeStamp - goneAtMs < SEQUENCE_MS && goneAtMs > 0;
      goneAtMs = event.key === "g" ? event.timeStamp : 0;
      const page = isSecond ? PAGES.find(({ key }) => key === event.key) : undefined;
      if (page !== undefined) void navigate({ to: page.path });
      else if (event.key === "?") show();
      else if (event.key === "/") focusSearch(event);
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [navigate, show]);
}

function focusSearch(event: KeyboardEvent): void {
  const search = document.querySelector<HTMLInputElement>("input[type=search]");
  if (search === null) return;
  event.preventDefault();
  search.focus();
  search.select();
}
