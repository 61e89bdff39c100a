# shellcheck shell=bash
# sluice.bash - completion of commands, options, their values and jobs' names for bash.
#
#   source <(sluice completion bash)                 now, or from ~/.bashrc
#   /usr/share/bash-completion/completions/sluice    for everybody: write it there
#
# The program that is typed is asked (`sluice complete`), so this file knows nothing of commands and
# does not go out of date.

_sluice() {
    local line=${COMP_LINE:0:COMP_POINT} current=${COMP_WORDS[COMP_CWORD]} candidate answers words
    # Bash cuts words at '=' and ':' as well: the line itself says where they end.
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    local typed=${words[-1]}
    COMPREPLY=()
    mapfile -t answers < <("${words[0]}" complete -- "${words[@]:1}" 2>/dev/null)
    for candidate in "${answers[@]}"; do
        candidate=${candidate%%$'\t'*}
        case $candidate in
        :directories)
            compopt -o filenames 2>/dev/null
            mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -d -- "$current")
            ;;
        :files*)
            local pattern=${candidate#:files}
            pattern=${pattern# }
            compopt -o filenames 2>/dev/null
            mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(
                if [[ $pattern ]]; then
                    compgen -f -X "!$pattern" -- "$current"
                    compgen -d -- "$current"
                else
                    compgen -f -- "$current"
                fi
            )
            ;;
        *)
            # What stands before the last '=' or ':' is on the line already.
            if [[ $COMP_WORDBREAKS == *=* && $typed == *=* ]]; then
                candidate=${candidate:${#typed}-${#current}}
            fi
            [[ $current == "=" ]] && candidate=${candidate#=}
            COMPREPLY+=("$candidate")
            ;;
        esac
    done
    # Behind "samplers=" comes a number.
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
    return 0
}

complete -F _sluice sluice
