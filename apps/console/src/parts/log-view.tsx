import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, useState, type ReactNode } from "react";
import { COMPLETE, followLog } from "../adapters/follow-log.ts";
import { appendLog, EMPTY_LOG, searchLog } from "../domain/append-log.ts";

const LINE_PIXELS = 20;
/** Interval within which arriving text is rendered together. */
const FLUSH_MS = 100;

/** Shows the log of one component, and appends new text. */
export function LogView({ path, label }: { readonly path: string; readonly label: string }): ReactNode {
  const { log, state } = useLog(path);
  const [text, setText] = useState("");
  const [isFollowed, setIsFollowed] = useState(true);
  const shown = useMemo(() => searchLog(log, text), [log, text]);
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: shown.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => LINE_PIXELS,
    overscan: 20,
  });
  useEffect(() => {
    if (isFollowed && shown.length > 0) virtual.scrollToIndex(shown.length - 1, { align: "end" });
  }, [virtual, isFollowed, shown.length]);
  return (
    <>
      <form role="search" className="filters" onSubmit={(event) => event.preventDefault()}>
        <label>
          <span>Search in the log</span>
          <input type="search" value={text} onChange={({ target }) => setText(target.value)} />
        </label>
        <label className="check">
          <input type="checkbox" checked={isFollowed} onChange={({ target }) => setIsFollowed(target.checked)} />
          <span>Follow</span>
        </label>
        <output>
          {shown.length} {shown.length === 1 ? "line" : "lines"}, {state}
        </output>
      </form>
      {state === COMPLETE && text === "" && shown.length === 0 && (
        <p className="quiet">There is no log: the program wrote nothing, or its pod is gone.</p>
      )}
      {log.dropped > 0 && <p className="quiet">The first {log.dropped} lines are not kept by this page.</p>}
      <div
        ref={scroller}
        className="log"
        role="log"
        aria-live="off"
        tabIndex={0}
        aria-label={`Log of ${label}`}
        onWheel={({ deltaY }) => deltaY < 0 && setIsFollowed(false)}
      >
        <div className="rows-space" style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map(({ key, index, start }) => (
            <div
              key={key}
              data-index={index}
              ref={virtual.measureElement}
              className="line"
              style={{ transform: `translateY(${start}px)` }}
            >
              <span className="number" aria-hidden="true">
                {shown[index]?.number}
              </span>
              <span>{shown[index]?.line}</span>
            </div>
          ))}
        </div>
      </div>
    </>
  );
}

function useLog(path: string): { readonly log: typeof EMPTY_LOG; readonly state: string } {
  const [log, setLog] = useState(EMPTY_LOG);
  const [state, setState] = useState("connecting");
  useEffect(() => {
    const stop = new AbortController();
    let queued = "";
    let timer: number | undefined;
    setLog(EMPTY_LOG);
    setState("connecting");
    const flush = (): void => {
      timer = undefined;
      const text = queued;
      queued = "";
      setLog((before) => appendLog(before, text));
    };
    const onText = (text: string): void => {
      queued += text;
      timer ??= window.setTimeout(flush, FLUSH_MS);
    };
    void followLog(path, { onText, onState: setState }, stop.signal);
    return () => {
      stop.abort();
      window.clearTimeout(timer);
    };
  }, [path]);
  return { log, state };
}
