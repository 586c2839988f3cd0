import { useEffect, useRef, useState, type ReactNode } from "react";
import { describeRefusal } from "../adapters/request.ts";
import { Refusal } from "./refusal.tsx";

type Confirmation = {
  readonly title: string;
  /** The text of the button that confirms. */
  readonly verb: string;
  readonly children?: ReactNode;
  readonly act: () => Promise<unknown>;
  readonly onClose: () => void;
};

/** Asks for confirmation of a change, and shows the reason if the change was refused. */
export function Confirm({ title, verb, children, act, onClose }: Confirmation): ReactNode {
  const dialog = useRef<HTMLDialogElement>(null);
  const [refusal, setRefusal] = useState("");
  const [isBusy, setIsBusy] = useState(false);
  useEffect(() => {
    dialog.current?.showModal();
    // The change may have removed the button that opened the dialog.
    return () => {
      if (document.activeElement === document.body) document.getElementById("content")?.focus({ preventScroll: true });
    };
  }, []);
  const submit = async (): Promise<void> => {
    setIsBusy(true);
    setRefusal("");
    try {
      await act();
      dialog.current?.close();
    } catch (error) {
      setRefusal(describeRefusal(error));
    } finally {
      setIsBusy(false);
    }
  };
  return (
    <dialog ref={dialog} onClose={onClose} aria-labelledby="confirm-title">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <h2 id="confirm-title">{title}</h2>
        {children}
        <Refusal>{refusal}</Refusal>
        <p className="actions">
          <button type="button" onClick={() => dialog.current?.close()}>
            Keep
          </button>
          <button type="submit" className="danger" disabled={isBusy}>
            {isBusy ? "Waiting for the answer…" : verb}
          </button>
        </p>
      </form>
    </dialog>
  );
}
