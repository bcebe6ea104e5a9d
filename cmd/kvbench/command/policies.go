package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvbench/kvbench/policies/catalogue"
)

func (a *app) listPolicies() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policies",
		Short: "List and explain the policies that choose a rank",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.policiesList(), a.policiesShow(), a.policiesCheck())
	return cmd
}

func (a *app) policiesList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List policies and the components to compose them of",
		Long: `List the ready policies, and the filters, scorers and pickers that policies
can be composed of. A policy is written as one of

  NAME
  NAME:parameter=value,parameter=value
  filter(NAME,...) score(NAME=weight,...) pick(NAME)
  @file.yaml

In lists, parameters stand in parentheses: score(load(by=tokens)=0.5). A policy
within another is written the same way: session:ttl=5m,inner=random.`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return catalogue.WriteJSON(a.stdout, a.policies, a.policies)
			}
			_, err := fmt.Fprint(a.stdout, catalogue.List(a.policies))
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print everything that is known of them as JSON")
	return cmd
}

func (a *app) policiesShow() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Explain one: rule, source, inputs, parameters, limits",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%s takes one argument, a NAME, and got %d", cmd.CommandPath(), len(args))
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, d := range a.policies {
				names = append(names, d.Name+"\t"+d.Summary)
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			found, err := catalogue.Find(a.policies, args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return catalogue.WriteJSON(a.stdout, found, a.policies)
			}
			text, err := catalogue.Show(found, a.policies)
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(a.stdout, text)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return cmd
}

func (a *app) policiesCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check POLICY",
		Short: "Say whether a policy can be built, and what it means in full",
		Long: `Read a policy as it is written on a command line, or the YAML file named after
an @, and build it. Printed are its shortest text, its text with every parameter,
which means the same when a default changes, and the inputs that it reads. A
mistake is shown with its place.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%s takes one argument, a POLICY, and got %d", cmd.CommandPath(), len(args))
			}
			return nil
		},
		ValidArgsFunction: a.completePolicy,
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := catalogue.Parse(args[0], a.policies)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.stdout, "policy  %s\nfull    %s\nreads   %s\n", p.Text, p.Full, p.Inputs())
			return err
		},
	}
}

// completePolicy completes a policy: names, then parameters; after an @, files.
func (a *app) completePolicy(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	if strings.HasPrefix(typed, "@") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return catalogue.Complete(typed, a.policies), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completePolicyOrNone is completePolicy where there may be no policy.
func (a *app) completePolicyOrNone(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	out, directive := a.completePolicy(cmd, args, typed)
	if strings.HasPrefix(noPolicy, typed) {
		out = append(out, noPolicy+"\tlookups alone")
	}
	return out, directive
}
