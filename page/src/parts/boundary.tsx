import { Component, type ComponentChildren } from "preact";
import { Failed } from "./states.tsx";

interface State {
  error: string | null;
}

/** A fault in one view leaves the navigation and the other views. */
export class Boundary extends Component<{ children: ComponentChildren }, State> {
  override state: State = { error: null };

  static override getDerivedStateFromError(error: unknown): State {
    return { error: error instanceof Error ? error.message : String(error) };
  }

  override render() {
    const { error } = this.state;
    if (error === null) return this.props.children;
    return <Failed error={error} retry={() => this.setState({ error: null })} />;
  }
}
