import { useState, type ReactNode } from "react";
import { stringify } from "yaml";

/** Shows plain data as YAML or JSON. */
export function DocumentView({ value, label }: { readonly value: unknown; readonly label: string }): ReactNode {
  const [form, setForm] = useState<"YAML" | "JSON">("YAML");
  return (
    <>
      <p className="actions start" role="group" aria-label="Form">
        {(["YAML", "JSON"] as const).map((each) => (
          <button key={each} type="button" aria-pressed={form === each} onClick={() => setForm(each)}>
            {each}
          </button>
        ))}
      </p>
      <pre tabIndex={0} role="region" aria-label={label}>
        {form === "YAML" ? stringify(value, { lineWidth: 0 }) : JSON.stringify(value, null, 2)}
      </pre>
    </>
  );
}
